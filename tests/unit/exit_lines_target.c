/* exit_lines_target.c - the program that exit_lines.py runs: a known number of calls in each class, and
 * what it did on stdout, a line "NUMBER SIZE ALLOCATED FREED_HERE FREED_ELSEWHERE" for each class that it
 * used. It calls hak_* only, so nobody else's blocks are in the figures. Every fifth class is left out. */
#include <hakmem.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16, HUGE_AFTER_LARGE = 3 * 1024 * 1024, LARGE = 100000 };

static void *blocks[MOST];

static void *free_the_rest(void *first) {
  for (void **block = first; block < blocks + MOST && *block != NULL; block++) hak_free(*block);
  return NULL;
}

static void use(unsigned number, size_t size, uint64_t shown_size) {
  unsigned count = 5 + number % 8, here = number % 5;
  pthread_t thread;
  for (unsigned i = 0; i < MOST; i++) blocks[i] = i < count ? hak_malloc(size) : NULL;
  for (unsigned i = 0; i < here; i++) hak_free(blocks[i]);
  if (pthread_create(&thread, NULL, free_the_rest, blocks + here + 1) != 0) abort();
  pthread_join(thread, NULL);
  /* One block stays. */
  printf("%u %llu %u %u %u\n", number, (unsigned long long)shown_size, count, here,
         count - here - 1);
}

int main(void) {
  struct hak_class_stats stats = {.size = sizeof stats};
  for (unsigned c = 0; hak_class_stats_get(c, &stats) == 0; c++) {
    size_t size = stats.tier == HAK_TIER_SMALL   ? (size_t)stats.block_size
                  : stats.tier == HAK_TIER_LARGE ? LARGE
                                                 : HUGE_AFTER_LARGE;
    if (c % 5 != 4 || stats.tier != HAK_TIER_SMALL) use(c, size, stats.block_size);
  }
  return 0;
}
