/* Requests that no machine can serve, or not under this limit: NULL with ENOMEM, and nothing that is kept for reuse is
 * given up for them.
 *
 * usage: impossible */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

enum { KEPT = 3, KEPT_BYTES = 4 << 20 };

struct state {
  uint64_t warm, unmaps, advices;
};

static struct state look(void) {
  struct hak_stats stats = kit_stats();
  return (struct state){stats.superslabs_warm, stats.os_munmap, stats.os_madvise};
}

static void fill_the_pool(void) {
  void *kept[KEPT];
  for (int i = 0; i < KEPT; i++) CHECK(kept[i] = malloc(KEPT_BYTES), "no memory");
  for (int i = 0; i < KEPT; i++) free(kept[i]);
  CHECK(look().warm >= KEPT * KEPT_BYTES >> 21, "nothing is kept for reuse: no test");
}

/* Of a block of each tier. */
static void grow(size_t bytes) {
  static const size_t sizes[] = {100, 30000, 300 * KIT_KB, 3 * KIT_MB};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *block = malloc(sizes[i]);
    CHECK(block, "no memory");
    memset(block, 0x5a, sizes[i]);
    struct state before = look();
    errno = 0;
    CHECK(!realloc(block, bytes) && errno == ENOMEM, "realloc to %zu: errno %d", bytes, errno);
    CHECK(look().warm == before.warm, "realloc to %zu emptied the pool", bytes);
    for (size_t at = 0; at < sizes[i]; at += 50) CHECK(block[at] == 0x5a, "realloc changed it");
    free(block);
  }
}

static void *zeroed(size_t bytes) { return calloc(bytes / 16 + 1, 16); }
static void *aligned(size_t bytes) { return aligned_alloc(64, bytes); }
static void *aligned_far(size_t bytes) { return aligned_alloc(64 * KIT_MB, bytes); }
static void *aligned_by_memalign(size_t bytes) {
  void *block = NULL;
  errno = posix_memalign(&block, 4096, bytes);
  return block;
}

/* `unmaps`: may the kernel be asked how much it would give? */
static void refuse(size_t bytes, bool unmaps) {
  void *(*const calls[])(size_t) = {malloc, zeroed, aligned, aligned_far, aligned_by_memalign};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    struct state before = look();
    errno = 0;
    void *block = calls[i](bytes);
    CHECK(!block && errno == ENOMEM, "call %zu for %zu bytes: %p, errno %d", i, bytes, block,
          errno);
    struct state after = look();
    CHECK(after.warm == before.warm, "call %zu for %zu bytes: %lu units were kept, %lu are left", i,
          bytes, (unsigned long)before.warm, (unsigned long)after.warm);
    CHECK(unmaps || after.unmaps == before.unmaps, "call %zu for %zu bytes unmapped", i, bytes);
    CHECK(after.advices == before.advices, "call %zu for %zu bytes gave back", i, bytes);
  }
  grow(bytes);
}

/* The kernel's heuristic refuses mappings longer than all memory and swap. */
static void refuse_beyond_memory(void) {
  char policy = '1';
  FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
  if (file != NULL) {
    CHECK(fread(&policy, 1, 1, file) == 1, "the policy cannot be read");
    fclose(file);
  }
  struct sysinfo info;
  CHECK(sysinfo(&info) == 0, "sysinfo");
  size_t all = ((size_t)info.totalram + info.totalswap) * info.mem_unit;
  if (policy == '0') refuse(all + ((size_t)64 << 30), true);
}

int main(void) {
  kit_start();
  fill_the_pool();
  refuse_beyond_memory();
  refuse((size_t)1 << 60, false);
  refuse((size_t)1 << 48, false);
#if defined(__x86_64__)
  refuse((size_t)1 << 47, false);
  refuse(((size_t)1 << 47) - 64 * KIT_MB, true); /* the program itself is in it */
#endif
  refuse(PTRDIFF_MAX, false);
  struct state before = look();
  errno = 0;
  volatile size_t alignment = (size_t)1 << 62; /* the compiler knows that it is too much */
  CHECK(!aligned_alloc(alignment, 100) && errno == ENOMEM, "an impossible alignment");
  CHECK(look().warm == before.warm, "an impossible alignment emptied the pool");
  size_t used = kit_address_space();
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
  limit.rlim_cur = used + 256 * KIT_MB;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  refuse(limit.rlim_cur + 1, false);
  refuse(limit.rlim_cur - 2 * KIT_MB, true);
  /* What can be had if the pool goes is had. */
  void *block = malloc(260 * KIT_MB);
  CHECK(block, "a request that a purge makes fit was refused");
  CHECK(look().warm == 0, "it fitted without: no test");
  free(block);
  return 0;
}
