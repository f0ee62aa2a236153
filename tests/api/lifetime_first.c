/* lifetime_first.c - a library that the program links. Its constructor runs before those of a
 * preloaded library, its destructor after them: the allocator has to work before it was initialised
 * and after it was finished. Its destructor also is the judge of the whole run. */
#include "lifetime.h"

#include "api_test.h"

#include <unistd.h>

enum { KEPT = 8, SMALL_BLOCKS = 150 };

static bool passed[STAGE_COUNT];
static void *kept[STAGE_COUNT][KEPT];
static const size_t kept_sizes[KEPT] = {1, 16, 200, 1024, 20 * 1024, 70000, 600000, 3000000};

static _Noreturn void give_up(const char *what, int stage) {
  char line[128];
  int length = snprintf(line, sizeof line, "lifetime: stage %d: %s\n", stage, what);
  if (write(STDERR_FILENO, line, (size_t)length) < 0) _exit(2);
  _exit(1);
}

static void require(bool condition, const char *what, int stage) {
  if (!condition) give_up(what, stage);
}

static void check_kept(int stage) {
  for (int s = 0; s < STAGE_COUNT; s++)
    for (int i = 0; passed[s] && i < KEPT; i++)
      require(block_is_filled(kept[s][i], kept_sizes[i], (uint64_t)(s * KEPT + i)),
              "a block of an earlier stage was damaged", stage);
}

void lifetime_pass(enum stage stage) {
  void *small[SMALL_BLOCKS];
  check_kept(stage);
  for (int i = 0; i < KEPT; i++) {
    kept[stage][i] = malloc(kept_sizes[i]);
    require(kept[stage][i] != NULL, "malloc gave NULL", stage);
    require(hak_owns == NULL || !expects("hakmem") || hak_owns(kept[stage][i]),
            "malloc's block is not hakmem's", stage);
    fill_block(kept[stage][i], kept_sizes[i], (uint64_t)(stage * KEPT + i));
  }
  passed[stage] = true;
  for (size_t size = 8; size < 40000; size = size * 5 / 2) {
    for (int i = 0; i < SMALL_BLOCKS; i++) {
      small[i] = calloc(1, size);
      require(small[i] != NULL && block_is_zero(small[i], size), "calloc is not zeroed", stage);
      memset(small[i], 0xee, size);
    }
    for (int i = 0; i < SMALL_BLOCKS; i++) {
      small[i] = realloc(small[i], size * 2);
      require(small[i] != NULL && *(unsigned char *)small[i] == 0xee, "realloc lost bytes", stage);
    }
    for (int i = 0; i < SMALL_BLOCKS; i++) free(small[i]);
  }
  void *aligned = NULL;
  require(posix_memalign(&aligned, 4096, 10000) == 0, "posix_memalign failed", stage);
  require(is_aligned(aligned, 4096), "posix_memalign is not aligned", stage);
  free(aligned);
  check_kept(stage);
}

__attribute__((constructor)) static void begin(void) { lifetime_pass(STAGE_LIBRARY_CONSTRUCTOR); }

__attribute__((destructor)) static void judge(void) {
  lifetime_pass(STAGE_LIBRARY_DESTRUCTOR);
  for (int s = 0; s < STAGE_COUNT; s++) {
    require(passed[s], "was not reached", s);
    for (int i = 0; i < KEPT; i++) free(kept[s][i]);
  }
  /* main returned 3, so that only a run that came to here succeeds. */
  _exit(0);
}
