/* homes_of_nodes.c - with more arenas on two nodes than a search asks: whichever of them sleeps, some searches later it is found. */
#include "unit_test.h"

#include "front/front.h"
#include "heap/adopt.h"
#include "heap/homes.h"
#include "heap/refill.h"
#include "policy/container.h"

WITHOUT_SAMPLES;

enum { A = 0, B = 1, PROCESSORS = 32, HALF = PROCESSORS / 2, BYTES = 320, SEARCHES = 8 };

static unsigned here;

unsigned __wrap_os_node(void); /* the linker calls them so */
unsigned __wrap_os_node(void) { return here; }
unsigned __wrap_os_processors(void);
unsigned __wrap_os_processors(void) { return PROCESSORS; }
unsigned __wrap_container_processors(struct container *container);
unsigned __wrap_container_processors(struct container *container) {
  (void)container;
  return 0; /* no quota */
}

static struct thread_cache *heaps[2][PROCESSORS];

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  heaps[A][0] = cache_of_thread();
  for (unsigned node = A; node <= B; node++) {
    here = node;
    for (unsigned i = node == A; i < PROCESSORS; i++)
      if ((heaps[node][i] = cache_borrow()) == NULL) return -1;
  }
  return heaps[A][0] != NULL && !cache_is_guest(heaps[B][PROCESSORS - 1]) ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  for (unsigned i = 1; i < 2 * PROCESSORS; i++)
    if (heaps[i / PROCESSORS][i % PROCESSORS] != NULL)
      cache_return(heaps[i / PROCESSORS][i % PROCESSORS]);
  return 0;
}

static void give_a_slab(struct thread_cache *heap) {
  void *block = refill(heap, class_for(BYTES), false, NULL);
  assert_non_null(block);
  guard_allocated(block, class_for(BYTES));
}

static bool is_found_by(struct arena *arena) {
  bool found = false;
  lock_acquire(&arena->lock);
  for (unsigned i = 0; i < SEARCHES && !found; i++)
    found = adopt_slabs(arena, class_for(BYTES), false);
  lock_release(&arena->lock);
  return found;
}

/* One after the other: each search looks at 16 arenas of its node, and at 16 of the other one, where it finds nothing. */
static void each_of_a_node_is_found(void **state) {
  (void)state;
  const unsigned places[] = {3, 5, HALF + 3, HALF + 5};
  for (here = A; here <= B; here++) {
    for (unsigned i = 0; i < 4; i++) give_a_slab(heaps[here][places[i]]);
    for (unsigned i = 0; i < 4; i++) {
      struct thread_cache *sleeps = heaps[here][places[i]];
      heaps[here][places[i]] = NULL;
      cache_return(sleeps);
      assert_true(is_found_by(heaps[here][1]->arena));
      assert_int_equal(sleeps->arena->classes[class_for(BYTES)].count, 0);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_of_a_node_is_found),
  };
  return cmocka_run_group_tests(tests, start, end);
}
