/* HAKMEM_SS_HUGEPAGE=explicit with pages that are there: a huge page is given back whole or not at all, and calloc
 * gives zeros, whatever the units were before. Allows the kernel some pages of 2 MiB, which takes root; run again as
 * `inside` for that.
 *
 * usage: reserved_pages */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 96 };
static const char allowed_file[] =
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages";

/* --- with huge pages ------------------------------------------------------------------------ */

/* Each order of them uses units that another one left. */
static const size_t sizes[] = {1000,        256 * KIT_KB, 300 * KIT_KB, 3 * KIT_MB,
                               20 * KIT_KB, 512 * KIT_KB, 900 * KIT_KB, 64};
enum { SIZES = sizeof sizes / sizeof *sizes, BYTES = 24 << 20, BLOCKS_MOST = 50000 };

static char *blocks[BLOCKS_MOST];

static size_t count_for(size_t size) {
  size_t count = BYTES / size;
  return count < BLOCKS_MOST ? count : BLOCKS_MOST;
}

static void fill(size_t size) {
  for (size_t i = 0; i < count_for(size); i++) {
    if (blocks[i] != NULL) continue;
    blocks[i] = mem_calloc(1, size);
    CHECK(blocks[i], "no memory for %zu bytes", size);
    kit_verify_zero(blocks[i], size);
    memset(blocks[i], 0xff, size);
  }
}

/* `step` 0: all go; 1: those at the start of a huge page, of which the kernel then gives back nothing and says that
 * it did; else every `step`-th stays. */
static void empty(size_t size, size_t step) {
  for (size_t i = 0; i < count_for(size); i++) {
    if (step == 1 ? (uintptr_t)blocks[i] % (2 * KIT_MB) != 0 : step != 0 && i % step == 0) continue;
    mem_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void grow_and_shrink(void) {
  char *block = mem_calloc(1, 5 * KIT_MB);
  CHECK(block, "no memory");
  memset(block, 0xff, 5 * KIT_MB);
  for (size_t mb = 3; mb <= 24; mb = mb % 5 == 0 ? mb / 2 : mb + 5) {
    char *moved = mem_realloc(block, mb * KIT_MB);
    CHECK(moved, "no memory");
    for (size_t i = 0; i < 3 * KIT_MB; i += 500) CHECK(moved[i] == (char)0xff, "realloc lost it");
    block = moved;
    if (mb == 22) break;
    kit_purge();
  }
  mem_free(block);
}

static int inside(void) {
  fill(KIT_MB);
  size_t kb = kit_status_kb("HugetlbPages:");
  empty(KIT_MB, 0);
  if (kb == 0) {
    printf("skipped: the kernel has no huge pages left for us\n");
    return KIT_SKIP;
  }
  printf("%zu KiB in huge pages\n", kb);
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < SIZES; i++) {
      fill(sizes[i]);
      for (size_t step = 1; step <= 9; step += 4) {
        empty(sizes[i], step);
        kit_purge(); /* parts of units */
        fill(sizes[i]);
      }
      grow_and_shrink();
      empty(sizes[i], 0);
      if (round > 0) kit_purge(); /* else the next size gets them out of the pool */
    }
  return 0;
}

/* --- around it ------------------------------------------------------------------------------ */

static bool read_allowed(char *text, size_t room) {
  int file = open(allowed_file, O_RDONLY | O_CLOEXEC);
  ssize_t length = file >= 0 ? read(file, text, room - 1) : -1;
  if (file >= 0) close(file);
  if (length <= 0) return false;
  text[length] = 0;
  return true;
}

static bool write_allowed(const char *text) {
  int file = open(allowed_file, O_WRONLY | O_CLOEXEC);
  bool done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
  if (file >= 0) close(file);
  return done;
}

int main(int argc, char **argv) {
  kit_start();
  if (argc > 1) return inside();
  char before[32], more[32];
  if (!read_allowed(before, sizeof before)) {
    printf("skipped: the kernel has no huge pages of 2 MiB\n");
    return KIT_SKIP;
  }
  snprintf(more, sizeof more, "%lu", strtoul(before, NULL, 10) + PAGES);
  if (!write_allowed(more)) {
    printf("skipped: huge pages may not be asked of the kernel here\n");
    return KIT_SKIP;
  }
  char *arguments[] = {argv[0], (char[]){"inside"}, NULL};
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    execv("/proc/self/exe", arguments);
    _exit(1);
  }
  bool ended = child > 0 && waitpid(child, &status, 0) == child;
  CHECK(write_allowed(before), "the number of huge pages cannot be set back to %s", before);
  CHECK(ended && WIFEXITED(status), "the child ended by signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}
