/* adopted_holes.c - slabs without pages, of a thread that has ended, go to a heap that prefers fresh ones: its blocks come out of them all the same. */
#include "unit_test.h"

#include <pthread.h>
#include <unistd.h>

#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/purger.h"
#include "heap/refill.h"
#include "heap/slabs.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

/* 48 MiB: above HUGE_PAGES_FROM. A block is a page, so that no free one keeps its own. */
enum { SIZE = 4096, COUNT = 12 * 1024, LEFT = 1024 };

static void *blocks[COUNT], *left[LEFT];

/* All but one block of 20, so that nearly all slabs keep some, and give back what is free. */
static void thin_out(void **all, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (i % 20 == 7) continue;
    hak_free(all[i]);
    all[i] = NULL;
  }
  hak_purge();
}

static void load(void **all, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (all[i] != NULL) continue;
    assert_non_null(all[i] = hak_malloc(SIZE));
    memset(all[i], 1, SIZE);
  }
}

static void *leave_slabs(void *unused) {
  (void)unused;
  load(left, LEFT);
  thin_out(left, LEFT);
  return NULL;
}

static void a_heap_that_prefers_fresh_pages_uses_what_it_adopted(void **state) {
  (void)state;
  struct thread_cache *mine = cache_of_thread();
  assert_non_null(mine);
  mine->arena->peak_committed = 0;
  load(blocks, COUNT);
  thin_out(blocks, COUNT);
  pthread_t id;
  assert_int_equal(pthread_create(&id, NULL, leave_slabs, NULL), 0);
  assert_int_equal(pthread_join(id, NULL), 0);
  /* So much came back that new slabs are preferred to holes. */
  unsigned size_class = class_for(SIZE);
  for (size_t i = 0; i < COUNT / 2; i++) {
    if (blocks[i] != NULL) continue;
    mine->arena->recommitted_bytes = RELEASE_LEAST;
    mine->arena->growth_purged = false;
    blocks[i] = bin_pop(&mine->bins[size_class]);
    /* Not hak_malloc, which purges after a refusal, and then has no preference. */
    if (blocks[i] == NULL) blocks[i] = refill(mine, size_class, false, NULL);
    assert_non_null(blocks[i]);
  }
  hak_purge();
  for (size_t i = 0; i < COUNT; i++) hak_free(blocks[i]);
  for (size_t i = 0; i < LEFT; i++) hak_free(left[i]);
}

int main(void) {
  if (sysconf(_SC_PAGESIZE) > 16 * 1024) {
    printf("skipped: a page is a whole slab, which has no holes then\n");
    return 77;
  }
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER);
  SET_OPTION(SS_HUGEPAGE, HUGEPAGE_THP);
  SET_OPTION(SS_MEM_LEAN, 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_heap_that_prefers_fresh_pages_uses_what_it_adopted),
  };
  return cmocka_run_group_tests_name("adopted holes", tests, NULL, NULL);
}
