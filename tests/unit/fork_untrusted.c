/* fork_untrusted.c - what a child may rely on of threads that it does not have: nothing that they did without a lock.
 *
 * Pages that a device may write to are copied at once at a fork, and a thread that writes to them does not wait: in the child
 * they may be older than the lists that lead through them. Here the links of free blocks are overwritten before the fork,
 * as such a page would look. And locks that others have taken from the forking thread: what they guard is left out.
 */
#include "child.h"
#include "superslab/unit_os.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/totals.h"
#include "free_slices.h"
#include "heap/absent.h"
#include "heap/bins.h"
#include "heap/heap.h"
#include "heap/named.h"
#include "heap/purger.h"
#include "heap/remote.h"
#include "superslab/lists.h"

WITHOUT_SAMPLES;

#ifdef __SANITIZE_THREAD__
int main(void) {
  puts("skipped: ThreadSanitizer does not follow a child that starts a thread");
  return 77;
}
#else

enum { BLOCKS = 200, SIZE = 256, WAIT_S = 60 };
#define STALE ((void *)(uintptr_t)0x7ff0dead0000)

static void *blocks[BLOCKS], *of_main[BLOCKS];
static struct thread_cache *other;
static atomic_int step;

static void wait_for_step(int wanted) {
  while (atomic_load(&step) < wanted) usleep(100);
}

/* A thread with free blocks in its bins, some for another heap in its slots, and some that were sent to it. */
static void *hold_blocks(void *unused) {
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = hak_malloc(SIZE));
  other = cache_of_thread();
  atomic_store(&step, 1);
  wait_for_step(2);
  for (int i = 0; i < 10; i++) hak_free(of_main[i]); /* gathered in a slot */
  for (int i = 0; i < BLOCKS / 2; i++) hak_free(blocks[i]);
  atomic_store(&step, 3);
  wait_for_step(4);
  return unused;
}

static void overwrite_list(void *list, void **saved, size_t *count) {
  while (list != NULL) {
    void *next = link_next(list);
    saved[(*count)++] = list;
    saved[(*count)++] = *(void **)list;
    *(void **)list = STALE;
    list = next;
  }
}

static void *use_in_thread(void *unused) {
  void *mine[BLOCKS];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      if ((mine[i] = hak_malloc(SIZE)) == NULL) _exit(4);
      memset(mine[i], i, SIZE);
    }
    for (int i = 0; i < BLOCKS; i++) {
      if (((unsigned char *)mine[i])[SIZE - 1] != (unsigned char)i) _exit(5);
      hak_free(mine[i]);
    }
  }
  return unused;
}

static void use_everything(void) {
  alarm(WAIT_S);
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
  use_in_thread(NULL);
  for (int i = BLOCKS / 2; i < BLOCKS; i++)
    hak_free(blocks[i]); /* live blocks of the other thread */
  pthread_t thread;
  for (int i = 0; i < 2; i++) { /* the first gets the heap of the thread that is not there */
    if (pthread_create(&thread, NULL, use_in_thread, NULL) != 0) _exit(6);
    pthread_join(thread, NULL);
  }
  hak_purge();
  use_in_thread(NULL);
  hak_free(hak_malloc(300 * KIB));
  hak_free(hak_malloc(3 * MIB));
  _exit(0);
}

/* What handlers of others do: behind ours in the parent, and before ours in the child. */
static void (*when_forking)(void), (*in_child_first)(void);

static void send_late(void) {
  for (int i = BLOCKS / 2 + 10; i < BLOCKS / 2 + 20; i++) hak_free(blocks[i]);
  remote_flush(cache_of_thread());
}

static void copied_too_early(void) {
  unsigned size_class = class_for(SIZE);
  void *saved[8 * BLOCKS];
  size_t count = 0;
  overwrite_list(other->bins[size_class].head, saved, &count);
  struct outgoing *slot = remote_slot(other, &cache_of_thread()->arena->inboxes[size_class]);
  if (slot->head == NULL) _exit(10);
  overwrite_list(slot->head, saved, &count);
  void *sent = atomic_load(&other->arena->inboxes[size_class].first);
  if (sent == NULL || count <= 20) _exit(11);
  link_restore(sent);
  overwrite_list(sent, saved, &count);
  ((uint64_t *)sent)[1] = (uint64_t)(uintptr_t)STALE | UINT64_C(9) << 48;
}

static void with_other_thread(pthread_t *thread) {
  atomic_store(&step, 0);
  for (int i = 0; i < BLOCKS; i++) assert_non_null(of_main[i] = hak_malloc(SIZE));
  assert_int_equal(pthread_create(thread, NULL, hold_blocks, NULL), 0);
  wait_for_step(1);
  atomic_store(&step, 2);
  wait_for_step(3);
}

static void end_other_thread(pthread_t thread) {
  when_forking = in_child_first = NULL;
  atomic_store(&step, 4);
  pthread_join(thread, NULL);
  for (int i = BLOCKS / 2; i < BLOCKS; i++) hak_free(blocks[i]);
  for (int i = 10; i < BLOCKS; i++) hak_free(of_main[i]);
}

static void links_of_absent_threads_are_not_followed(void **state) {
  (void)state;
  pthread_t thread;
  with_other_thread(&thread);
  for (int i = BLOCKS / 2; i < BLOCKS / 2 + 10; i++) hak_free(blocks[i]);
  remote_flush(cache_of_thread()); /* 10 blocks that wait in the other's inbox before the fork */
  when_forking = send_late;        /* and 10 that are sent meanwhile */
  in_child_first = copied_too_early;
  pid_t child = fork();
  for (int i = BLOCKS / 2; i < BLOCKS / 2 + 20; i++) blocks[i] = NULL;
  if (child == 0) {
    use_everything();
  }
  child_ends_well(child);
  end_other_thread(thread);
}

/* What a thread that sleeps has in its bins and slots is used again, and what was sent to it. */
static void caches_of_sleeping_threads_are_the_childs(void **state) {
  (void)state;
  pthread_t thread;
  with_other_thread(&thread);
  for (int i = BLOCKS / 2; i < BLOCKS; i++) hak_free(blocks[i]);
  remote_flush(cache_of_thread());
  unsigned size_class = class_for(SIZE);
  struct bin *bin = &other->bins[size_class];
  struct outgoing *slot = remote_slot(other, &cache_of_thread()->arena->inboxes[size_class]);
  pid_t child = fork();
  if (child == 0) {
    uint64_t sent = (uint64_t)atomic_load(&other->arena->inbox_bytes);
    unsigned in_bin = (unsigned)((int32_t)bin->capacity - bin->room);
    if (bin->head == NULL || in_bin == 0 || slot->head == NULL) _exit(3);
    if (sent < (uint64_t)(BLOCKS / 2) * class_size(size_class)) _exit(4);
    if (cache_borrow() != other || bin->head == NULL || slot->head != NULL) _exit(5);
    if ((unsigned)((int32_t)bin->capacity - bin->room) != in_bin) _exit(6);
    if (absent_lost_bytes() != 0) _exit(7);
    _exit(0);
  }
  for (int i = BLOCKS / 2; i < BLOCKS; i++) blocks[i] = NULL;
  child_ends_well(child);
  end_other_thread(thread);
}

/* A thread that is at work while the process forks, though not for long. */
static void free_one_more(void) {
  hak_free(of_main[10]);
  of_main[10] = NULL;
  struct bin *bin = &other->bins[class_for(SIZE)];
  (void)bin_push(bin, bin_pop(bin)); /* as it was, but for what follows */
  remote_slot(other, &cache_of_thread()->arena->inboxes[class_for(SIZE)])->waited ^= true;
}

static void caches_of_busy_threads_are_lost_and_counted(void **state) {
  (void)state;
  pthread_t thread;
  with_other_thread(&thread);
  struct bin *bin = &other->bins[class_for(SIZE)];
  size_t held = bins_bytes(other->bins);
  assert_true(held > 0);
  when_forking = free_one_more;
  pid_t child = fork();
  if (child == 0) {
    struct totals totals;
    if (bin->head != NULL || bin->capacity != 0) _exit(3);
    if (absent_lost_bytes() < held) _exit(4);
    totals_get(&totals, true);
    if (totals.lost != absent_lost_bytes()) _exit(5);
    use_everything();
  }
  child_ends_well(child);
  end_other_thread(thread);
}

/* Who sends a batch counts it afterwards, and was between the two. */
static void an_inbox_that_nobody_has_counted_is_forgotten(void **state) {
  (void)state;
  pthread_t thread;
  atomic_store(&step, 0);
  for (int i = 0; i < BLOCKS; i++) assert_non_null(of_main[i] = hak_malloc(SIZE));
  assert_int_equal(pthread_create(&thread, NULL, hold_blocks, NULL), 0);
  wait_for_step(1);
  atomic_store(&step, 2);
  wait_for_step(3);
  for (int i = BLOCKS / 2; i < BLOCKS; i++) {
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
  remote_flush(cache_of_thread());
  unsigned size_class = class_for(SIZE);
  assert_non_null(atomic_load(&other->arena->inboxes[size_class].first));
  int64_t counted = atomic_exchange(&other->arena->inbox_bytes, 0);
  pid_t child = fork();
  if (child == 0) _exit(atomic_load(&other->arena->inboxes[size_class].first) != NULL);
  atomic_store(&other->arena->inbox_bytes, counted);
  child_ends_well(child);
  atomic_store(&step, 4);
  pthread_join(thread, NULL);
  for (int i = 10; i < BLOCKS; i++) hak_free(of_main[i]);
}

/* --- what a handler has interrupted -------------------------------------------------------------------------------- */

/* The thread goes on with the heap in the child: nobody else may get it. */
static void a_borrowed_heap_stays_its_threads(void **state) {
  (void)state;
  struct thread_cache *borrowed = cache_borrow();
  assert_non_null(borrowed);
  assert_ptr_not_equal(borrowed, cache_of_thread());
  pid_t child = fork();
  if (child == 0) {
    if (heap_active() != 2) _exit(3);
    cache_return(borrowed);
    struct thread_cache *first = cache_borrow(), *second = cache_borrow();
    if (first == NULL || second == NULL || first == second) _exit(4);
    if (heap_active() != 3) _exit(5);
    use_everything();
  }
  cache_return(borrowed);
  child_ends_well(child);
}

/* The purger had free slices in its hands; the child starts with new lists. */
static void slices_of_forgotten_lists_stay_out_of_the_new_ones(void **state) {
  (void)state;
  struct dirty_cursor cursor = {0};
  struct dirty_slices set;
  size_t unexpired = 0;
  void *kept = hak_malloc(300 * KIB);
  void *freed = hak_malloc(300 * KIB);
  hak_free(freed);
  span_cache_flush(&cache_of_thread()->spans);
  clean_free_slices();
  bool zeroed;
  struct slab *span = span_acquire(4, 1, KIND_LARGE, PAGES_SMALL, COUNTED_LARGE, &zeroed);
  assert_non_null(span);
  span_release(span);
  assert_int_equal(superslab_take_dirty(&cursor, 0, &set, 1, &unexpired), 1);
  pid_t child = fork();
  if (child == 0) {
    lock_acquire(&superslab_lock);
    lists_forget();
    lock_release(&superslab_lock);
    superslab_put_clean(set, true);
    if (superslab_lists.live != 0) _exit(3);
    for (unsigned node = 0; node < node_end(); node++)
      for (unsigned i = 0; i < LISTS; i++)
        if (lists_of(node)->of[i] != NULL) _exit(4);
    use_everything();
  }
  superslab_put_clean(set, false);
  child_ends_well(child);
  hak_free(kept);
}

/* --- named heaps ---------------------------------------------------------------------------------------------------- */

static void a_lost_heap_is_not_used_again(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("lost", 0);
  assert_non_null(heap);
  hak_heap_destroy(heap);
  pid_t child = fork();
  if (child == 0) {
    named_lose(&heap->arena);
    hak_heap *next = hak_heap_create("next", 0);
    _exit(next == NULL || next == heap || hak_heap_malloc(next, 100) == NULL);
  }
  child_ends_well(child);
}

/* --- locks that are taken away ---------------------------------------------------------------------------------- */

static struct lock *wanted[8];
static size_t wanted_count;
static atomic_bool has_all, may_end;

static struct slab *claimed; /* a cached span of the thread that forks */

/* As an allocation that waits for each of them, or the purger. */
static void *take_locks(void *unused) {
  for (size_t i = 0; i < wanted_count; i++) lock_acquire(wanted[i]);
  if (claimed != NULL) atomic_store(&claimed->kind, KIND_DECOMMITTING);
  atomic_store(&has_all, true);
  while (!atomic_load(&may_end)) usleep(100);
  if (claimed != NULL) atomic_store(&claimed->kind, KIND_CACHED);
  for (size_t i = wanted_count; i-- > 0;) lock_release(wanted[i]);
  return unused;
}

/* A handler of another library that runs after ours, and waits for what another thread has, which waits for us. */
static pthread_t taker;
static bool handler_takes;

/* In the child, before our own handler has run. */
static void allocate_early(void) {
  if (in_child_first != NULL) in_child_first();
  if (handler_takes) use_in_thread(NULL);
}

static void on_fork(void) {
  if (when_forking != NULL) when_forking();
  if (!handler_takes) return;
  atomic_store(&has_all, false);
  atomic_store(&may_end, false);
  if (pthread_create(&taker, NULL, take_locks, NULL) != 0) abort();
  while (!atomic_load(&has_all)) usleep(100);
}

static void fork_while_taken(void) {
  handler_takes = true;
  pid_t child = fork();
  if (child == 0) {
    handler_takes = false;
    use_everything();
  }
  atomic_store(&may_end, true);
  pthread_join(taker, NULL);
  handler_takes = false;
  child_ends_well(child);
  use_in_thread(NULL);
}

static void locks_taken_from_a_fork_are_left_out(void **state) {
  (void)state;
  use_in_thread(NULL);
  enum { LOCKS = 4 };
  struct arena *parked = arena_first();
  if (parked == arena_beside(cache_of_thread())) parked = parked->next;
  struct lock *locks[LOCKS] = {&parked->lock, &superslab_lock, &unit_lock, &meta_lock};
  memset(blocks, 0, sizeof blocks);
  for (size_t i = 0; i < LOCKS; i++) {
    wanted[0] = locks[i];
    wanted_count = 1;
    fork_while_taken();
  }
  /* All of them at once. */
  memcpy(wanted, locks, sizeof locks);
  wanted_count = LOCKS;
  fork_while_taken();
}

/* The purger of another thread, which is not in the child, is giving its pages back. */
static void cached_spans_that_an_absent_engine_has_are_not_waited_for(void **state) {
  (void)state;
  hak_free(hak_malloc(300 * KIB));
  struct span_cache *cache = &cache_of_thread()->spans;
  uint32_t count = atomic_load(&cache->count);
  assert_true(count > 0);
  claimed = atomic_load(&cache->spans[count - 1]);
  assert_int_equal(atomic_load(&claimed->kind), KIND_CACHED);
  wanted[0] = &purger_batch_lock;
  wanted_count = 1;
  fork_while_taken();
  claimed = NULL;
}

/* --- two processes of one number ------------------------------------------------------------------------------- */

static void *sleep_for_ever(void *unused) {
  hak_free(hak_malloc(SIZE));
  atomic_store(&has_all, true);
  while (true) pause();
  return unused;
}

/* The first process of a namespace, which makes another one: its child has number 1 as well. */
static void first_of_namespace(void) {
  pthread_t thread;
  int status = -1;
  alarm(WAIT_S);
  hak_free(hak_malloc(SIZE));
  atomic_store(&has_all, false);
  if (pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0) _exit(6);
  while (!atomic_load(&has_all)) usleep(100);
  if (getpid() != 1 || unshare(CLONE_NEWPID) != 0) _exit(77);
  pid_t child = fork();
  if (child == 0) {
    struct hak_stats stats = {.size = sizeof stats};
    if (getpid() != 1) _exit(77);
    if (hak_stats_get(&stats) != 0 || stats.heaps_active != 1) _exit(7);
    use_in_thread(NULL);
    hak_purge();
    _exit(0);
  }
  if (child < 0) _exit(77);
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) _exit(8);
  _exit(WEXITSTATUS(status));
}

static void a_child_may_have_its_parents_number(void **state) {
  (void)state;
  int status = -1;
  pid_t maker = fork(); /* this process stays in its own namespace */
  if (maker == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    pid_t first = fork();
    if (first == 0) first_of_namespace();
    if (first < 0 || waitpid(first, &status, 0) != first) _exit(77);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
  }
  assert_int_equal(waitpid(maker, &status, 0), maker);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    print_message("skipped: this system makes no namespaces of processes here\n");
    skip();
  }
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* Runs before hakmem's own handlers are registered, so that its prepare part comes after theirs. */
__attribute__((constructor(101))) static void register_first(void) {
  pthread_atfork(on_fork, NULL, allocate_early);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(links_of_absent_threads_are_not_followed),
      cmocka_unit_test(caches_of_sleeping_threads_are_the_childs),
      cmocka_unit_test(caches_of_busy_threads_are_lost_and_counted),
      cmocka_unit_test(an_inbox_that_nobody_has_counted_is_forgotten),
      cmocka_unit_test(a_borrowed_heap_stays_its_threads),
      cmocka_unit_test(slices_of_forgotten_lists_stay_out_of_the_new_ones),
      cmocka_unit_test(a_lost_heap_is_not_used_again),
      cmocka_unit_test(locks_taken_from_a_fork_are_left_out),
      cmocka_unit_test(cached_spans_that_an_absent_engine_has_are_not_waited_for),
      cmocka_unit_test(a_child_may_have_its_parents_number),
  };
  return cmocka_run_group_tests_name("fork_untrusted", tests, NULL, NULL);
}
#endif
