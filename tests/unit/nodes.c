/* nodes.c - memory nodes, which the test says instead of the system: what was in use on one is used again there, and elsewhere only
 * where nothing else is to be had. */
#include "superslab_figures.h"

#include <sys/wait.h>
#include <unistd.h>

#include "front/fast.h"
#include "heap/adopt.h"
#include "heap/homes.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "os/fault.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

static unsigned here;          /* the number of the node that the thread is told */
unsigned __wrap_os_node(void); /* the linker calls it so */
unsigned __wrap_os_node(void) { return here; }

enum { A = 1, B = 2, C = 3 }; /* as on a machine whose node 0 has no processors */

static int start(void **state) {
  (void)state;
  here = A;
  hak_free(hak_malloc(1));
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  return cache_of_thread() != NULL ? 0 : -1;
}

/* Without system calls from now on. */
static void refuse_all(void) { os_fault_fail_from(1); }

static struct unit_run unit_on(unsigned node) {
  here = node;
  struct unit_run run = unit_acquire(1, UNIT_BYTES);
  if (run.base != NULL) run.base[0] = 1;
  return run;
}

static void give(struct unit_run run) { unit_release(run.base, 1, run.huge_pages, run.node); }

/* --- units -------------------------------------------------------------------------------------------- */

static void a_unit_comes_back_to_its_node(void **state) {
  (void)state;
  unit_trim();
  struct unit_run a = unit_on(A), b = unit_on(B);
  assert_int_equal(a.node, A);
  assert_int_equal(b.node, B);
  give(a);
  give(b);
  assert_ptr_equal(unit_on(B).base, b.base);
  struct unit_run fresh = unit_on(B); /* though one of A waits */
  assert_true(fresh.from_os);
  assert_ptr_not_equal(fresh.base, a.base);
  assert_ptr_equal(unit_on(A).base, a.base);
  give(a);
  give(b);
  give(fresh);
}

static void a_far_unit_is_better_than_none(void **state) {
  (void)state;
  unit_trim();
  struct unit_run a = unit_on(A);
  give(a);
  refuse_all();
  struct unit_run far = unit_on(B), none = unit_on(B);
  os_fault_reset();
  assert_ptr_equal(far.base, a.base);
  assert_int_equal(far.node, A); /* where it goes back to */
  assert_false(far.from_os);
  assert_null(none.base);
  give(far);
}

static void neighbours_of_two_nodes_are_two_runs(void **state) {
  (void)state;
  unit_trim();
  here = A;
  struct unit_run run = unit_acquire(4, UNIT_BYTES);
  assert_non_null(run.base);
  unit_release(run.base, 2, run.huge_pages, A);
  unit_release(run.base + 2 * UNIT_BYTES, 2, run.huge_pages, B);
  struct unit_run whole = unit_acquire(4, UNIT_BYTES);
  assert_ptr_not_equal(whole.base, run.base);
  if (whole.used > 0)
    assert_int_equal(whole.used, 2); /* of A, moved into it; the kernel may refuse */
  assert_int_equal(unit_figures().units_warm, 4 - whole.used);
  here = B;
  struct unit_run half = unit_acquire(2, UNIT_BYTES);
  assert_ptr_equal(half.base, run.base + 2 * UNIT_BYTES);
  unit_release(half.base, 2, half.huge_pages, B);
  unit_release(whole.base, 4, whole.huge_pages, A);
}

/* Under a limit of the address space the end of another one is cut off, and it may go to the system. */
#define WHOLE_UNITS (4 * MIB)

static void a_huge_block_comes_back_to_its_node(void **state) {
  (void)state;
  unit_trim();
  here = A;
  char *block = hak_malloc(WHOLE_UNITS);
  here = B; /* whoever frees it */
  hak_free(block);
  assert_ptr_not_equal(hak_malloc(WHOLE_UNITS), block);
  here = A;
  assert_ptr_equal(hak_malloc(WHOLE_UNITS), block);
  hak_free(block);
}

/* --- SuperSlabs ------------------------------------------------------------------------------------------ */

static struct superslab *slice_on(unsigned node) {
  bool zeroed;
  here = node;
  struct slab *span = span_acquire(1, 1, KIND_SLAB, PAGES_SMALL, 0, &zeroed);
  if (span == NULL) return NULL;
  span->touched = SLICE_BYTES;
  return superslab_of(span);
}

static void slices_are_of_the_threads_node(void **state) {
  (void)state;
  struct superslab *a = slice_on(A), *b = slice_on(B);
  assert_ptr_not_equal(a, b);
  assert_int_equal(a->node, A);
  assert_int_equal(b->node, B);
  assert_ptr_equal(slice_on(A), a);
  assert_ptr_equal(slice_on(B), b);
  struct superslab_stats stats = span_figures();
  assert_true(stats.live_of[A] > 0 && stats.live_of[B] > 0);
  assert_int_equal(stats.live_of[A] + stats.live_of[B] + stats.live_of[C], stats.live);
}

static void a_far_slice_is_better_than_none(void **state) {
  (void)state;
  unit_trim();
  refuse_all();
  const struct superslab *far = slice_on(C);
  os_fault_reset();
  assert_non_null(far);
  assert_int_not_equal(far->node, C);
}

static void all_nodes_give_back(void **state) {
  (void)state;
  bool zeroed;
  here = B;
  struct slab *kept = span_acquire(1, 1, KIND_SLAB, PAGES_SMALL, 0, &zeroed);
  struct slab *span = span_acquire(1, 1, KIND_SLAB, PAGES_SMALL, 0, &zeroed);
  kept->touched = span->touched = SLICE_BYTES;
  span_release(span);
  assert_true(superslab_dirty_bytes() > 0);
  here = A;
  hak_purge();
  assert_int_equal(superslab_dirty_bytes(), 0);
  span_release(kept);
}

/* --- heaps ------------------------------------------------------------------------------------------------ */

static struct thread_cache *heap_on(unsigned node) {
  here = node;
  struct thread_cache *heap = cache_borrow();
  assert_non_null(heap);
  return heap;
}

static void a_heap_comes_back_to_its_node(void **state) {
  (void)state;
  struct thread_cache *a = heap_on(A), *b = heap_on(B);
  cache_return(a);
  cache_return(b);
  struct thread_cache *other = heap_on(C);
  assert_true(other != a && other != b);
  assert_ptr_equal(heap_on(A), a);
  assert_ptr_equal(heap_on(B), b);
  cache_return(a);
  cache_return(b);
  cache_return(other);
}

static void *take(struct thread_cache *heap, size_t bytes) {
  void *block = refill(heap, class_for(bytes), false, NULL);
  if (block != NULL) guard_allocated(block, class_for(bytes));
  return block;
}

static void put(struct thread_cache *heap, void *block) {
  guard_freed(block, map_inbox(block));
  remote_free(heap, map_inbox(block), block);
}

static void what_sleeps_on_another_node_sleeps_on(void **state) {
  (void)state;
  enum { BYTES = 320 };
  struct thread_cache *a = heap_on(A), *b = heap_on(B), *other = heap_on(A);
  unsigned size_class = class_for(BYTES);
  here = A;
  void *block = take(a, BYTES), *ours;
  put(other, block);
  remote_flush(other);
  cache_return(a); /* asleep from now on, with a slab that has room */
  here = B;
  assert_non_null(ours = take(b, BYTES));
  assert_ptr_not_equal(map_slab(ours), map_slab(block));
  assert_int_equal(a->arena->classes[size_class].count, 1);
  here = A;
  assert_non_null(ours = take(other, BYTES));
  assert_ptr_equal(map_slab(ours), map_slab(block));
  assert_int_equal(a->arena->classes[size_class].count, 0);
  cache_return(other);
  /* Nothing else is to be had: no room in slabs of its own, nor in a SuperSlab of any node. */
  unit_trim();
  here = C;
  struct thread_cache *poor = heap_on(C);
  refuse_all();
  while (slice_on(C) != NULL) continue;
  ours = take(poor, BYTES);
  os_fault_reset();
  assert_non_null(ours);
  assert_int_not_equal(superslab_of(map_slab(ours))->node, C);
  cache_return(b);
  cache_return(poor);
}

/* A heap that was entered on one node and sleeps on another is found there. */
static void a_heap_that_moved_is_found_where_it_sleeps(void **state) {
  (void)state;
  const size_t bytes = 1200; /* no other test leaves anything of it */
  struct thread_cache *moves = heap_on(A);
  void *block = take(moves, bytes);
  assert_ptr_equal(arena_of_inbox(map_inbox(block), class_for(bytes)), moves->arena);
  cache_return(moves);
  assert_ptr_equal(heap_on(A), moves);
  arena_set_node(moves->arena, B);
  struct thread_cache *seeks = heap_on(B);
  cache_return(moves);
  lock_acquire(&seeks->arena->lock);
  bool found = adopt_slabs(seeks->arena, class_for(bytes), false);
  lock_release(&seeks->arena->lock);
  assert_true(found);
  assert_ptr_equal(arena_of_inbox(map_inbox(block), class_for(bytes)), seeks->arena);
  put(seeks, block);
  cache_return(seeks);
}

/* --- guests, and blocks of one thread ------------------------------------------------------------------------ */

static unsigned heaps_made(void) {
  unsigned made = 0;
  for (const struct arena *heap = arena_first(); heap != NULL; heap = heap->next) made++;
  return made;
}

/* More heaps than may own slabs, on two nodes: a guest's home is on its own. */
static void guests_are_on_their_homes_node(void **state) {
  (void)state;
  enum { MOST = 256, GUESTS = 6, BYTES = 1100 };
  static struct thread_cache *heaps[2 * MOST];
  struct thread_cache *guests[GUESTS];
  unsigned made = 0;
  for (unsigned node = A; node <= B; node++) {
    here = node;
    while (homes_may_be_more(node)) heaps[made++] = heap_on(node);
  }
  for (int i = 0; i < GUESTS; i++) {
    unsigned node = i % 2 == 0 ? A : B;
    guests[i] = heap_on(node);
    assert_true(cache_is_guest(guests[i]));
    assert_int_equal(arena_node(guests[i]->arena), node);
    assert_int_equal(arena_node(guests[i]->arena), node);
    void *block = take(guests[i], BYTES);
    assert_non_null(block);
    assert_ptr_equal(arena_of_inbox(map_inbox(block), class_for(BYTES)), guests[i]->arena);
    assert_int_equal(superslab_of(map_slab(block))->node, node);
    put(guests[0], block);
  }
  /* One that is parked finds a home on the node of the next thread. */
  cache_return(guests[0]);
  struct thread_cache *again = heap_on(B);
  assert_ptr_equal(again, guests[0]);
  assert_int_equal(arena_node(again->arena), B);
  for (int i = 0; i < GUESTS; i++) cache_return(guests[i]);
  while (made > 0) cache_return(heaps[--made]);
}

/* Threads that begin on one node and end on another: each gets the heap of one before it, or is a guest. */
static void threads_that_move_make_no_heaps(void **state) {
  (void)state;
  enum { THREADS = 500 };
  unsigned before = heaps_made();
  for (int i = 0; i < THREADS; i++) {
    struct thread_cache *heap = heap_on(A);
    arena_set_node(heap->arena, B);
    cache_return(heap);
  }
  assert_true(heaps_made() <= before + THREADS / 10);
}

static void a_far_large_block_is_not_kept(void **state) {
  (void)state;
  struct span_cache *cache = &cache_of_thread()->spans;
  here = A;
  void *block = hak_malloc(300 * KIB);
  uint32_t kept = atomic_load(&cache->count);
  here = B;
  hak_free(block);
  assert_int_equal(atomic_load(&cache->count), kept);
  here = A;
  block = hak_malloc(300 * KIB);
  kept = atomic_load(&cache->count);
  hak_free(block);
  assert_int_equal(atomic_load(&cache->count), kept + 1);
}

/* --- and around ------------------------------------------------------------------------------------------- */

static void a_child_goes_on(void **state) {
  (void)state;
  struct thread_cache *b = heap_on(B);
  cache_return(b);
  pid_t child = fork();
  if (child == 0) {
    here = B;
    struct thread_cache *heap = cache_borrow();
    void *block = heap != NULL ? take(heap, 700) : NULL;
    _exit(block != NULL && arena_node(heap->arena) == B ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void high_numbers_share(void **state) {
  (void)state;
  here = NODES + A;
  assert_int_equal(node_now(), A);
  here = A;
  assert_int_equal(node_count(), 3);
  assert_int_equal(node_end(), C + 1);
}

static void switched_off_there_is_one(void **state) {
  (void)state;
#if HAK_FAST
  print_message("skipped: options are constants in this build\n");
  skip();
#else
  unit_trim();
  SET_OPTION(NUMA, 0);
  struct unit_run a = unit_on(A);
  give(a);
  assert_ptr_equal(unit_on(B).base, a.base);
  give(a);
  SET_OPTION(NUMA, 1);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_unit_comes_back_to_its_node),
      cmocka_unit_test(a_far_unit_is_better_than_none),
      cmocka_unit_test(neighbours_of_two_nodes_are_two_runs),
      cmocka_unit_test(a_huge_block_comes_back_to_its_node),
      cmocka_unit_test(slices_are_of_the_threads_node),
      cmocka_unit_test(a_far_slice_is_better_than_none),
      cmocka_unit_test(all_nodes_give_back),
      cmocka_unit_test(a_heap_comes_back_to_its_node),
      cmocka_unit_test(what_sleeps_on_another_node_sleeps_on),
      cmocka_unit_test(a_heap_that_moved_is_found_where_it_sleeps),
      cmocka_unit_test(a_far_large_block_is_not_kept),
      cmocka_unit_test(a_child_goes_on),
      cmocka_unit_test(guests_are_on_their_homes_node),
      cmocka_unit_test(threads_that_move_make_no_heaps),
      cmocka_unit_test(high_numbers_share),
      cmocka_unit_test(switched_off_there_is_one),
  };
  return cmocka_run_group_tests(tests, start, NULL);
}
