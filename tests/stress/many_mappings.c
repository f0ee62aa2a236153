/* A heap of 96 GiB with a hole beside each block. The kernel allows 65,530 mappings, and a process that has them gets no more memory: giving
 * holes back must not come near. And what is known of the heap takes little memory.
 */
#include "kit.h"

#include <stdio.h>
#include <sys/mman.h>

/* Each block in a unit of its own: without a bound, half as many mappings. */
enum { BLOCKS = 49152, WRITTEN = 512 };
#define BLOCK_BYTES (1536 * KIT_KB)

/* Mappings of our units (superslab/mappings.h), guards and the program's own. Where guards are mappings
 * the hardened variant has up to 24,576 beside them. */
enum { MAPPINGS_MOST = 16384 + 2048, WITH_GUARDS_MOST = MAPPINGS_MOST + 24576 };

static char *blocks[BLOCKS];

static long mappings(void) {
  static char text[1 << 16];
  long lines = 0;
  size_t length;
  FILE *file = fopen("/proc/self/maps", "re");
  CHECK(file, "no /proc/self/maps");
  while ((length = fread(text, 1, sizeof text, file)) > 0)
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
  fclose(file);
  return lines;
}

static void allocate(unsigned i) {
  blocks[i] = mem_malloc(BLOCK_BYTES);
  if (blocks[i] != NULL) return;
  printf("skipped: no address space for %u blocks of 1.5 MiB\n", i);
  exit(KIT_SKIP);
}

/* Linux 6.13 and later know guards that are no mappings (MADV_GUARD_INSTALL); of no bytes they say so. */
static bool may_be_guarded(void) {
  enum { INSTALL = 102 };
  return madvise(blocks[1], 0, INSTALL) != 0;
}

static void check_mappings(const char *when) {
  long most = may_be_guarded() ? WITH_GUARDS_MOST : MAPPINGS_MOST;
  long now = mappings();
  printf("%ld mappings %s\n", now, when);
  CHECK(now <= most, "%ld mappings %s", now, when);
}

/* 0.25 KB a block, and what the library has from the start. */
static void check_metadata(void) {
  struct hak_stats stats = kit_stats();
  CHECK(stats.bytes_mapped >= BLOCKS * BLOCK_BYTES, "%zu bytes mapped", (size_t)stats.bytes_mapped);
  CHECK(stats.bytes_metadata <= BLOCKS * KIT_KB / 4 + 4 * KIT_MB, "%zu bytes of metadata",
        (size_t)stats.bytes_metadata);
}

/* What is in a hole's place later reads as zeros, and blocks that stayed are as they were. */
static void check_blocks(void) {
  for (unsigned i = 0; i < BLOCKS; i += 2) {
    char *block = mem_calloc(1, BLOCK_BYTES);
    CHECK(block, "no memory");
    if (i % (BLOCKS / WRITTEN) == 0)
      for (size_t at = 0; at < BLOCK_BYTES; at += 4096)
        CHECK(block[at] == 0, "byte %zu of a block of calloc is %d", at, block[at]);
    blocks[i] = block;
  }
  for (unsigned i = 1; i < BLOCKS; i += BLOCKS / WRITTEN)
    CHECK(blocks[i][BLOCK_BYTES - 1] == (char)i, "block %u has changed", i);
}

int main(void) {
  kit_start();
  kit_watchdog(240);
  for (unsigned i = 0; i < BLOCKS; i++) allocate(i);
  for (unsigned i = 0; i < BLOCKS; i += BLOCKS / WRITTEN) {
    blocks[i][0] = blocks[i][4096 * 100] = 1;
    blocks[i + 1][BLOCK_BYTES - 1] = (char)(i + 1);
  }
  check_metadata();
  check_mappings("before a block was freed");
  for (unsigned i = 0; i < BLOCKS; i += 2) mem_free(blocks[i]);
  kit_purge();
  check_mappings("with each second block freed");
  check_blocks();
  check_mappings("with as many blocks again");
  for (unsigned i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  kit_purge();
  CHECK(mappings() < 4096, "%ld mappings with nothing in use", mappings());
  size_t left = (size_t)kit_stats().bytes_mapped;
  CHECK(left < 64 * KIT_MB, "%zu bytes stay mapped", left);
  return 0;
}
