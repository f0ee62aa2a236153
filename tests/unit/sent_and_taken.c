/* sent_and_taken.c - blocks that several threads send, while their owner and a thief take batches: none is lost, and none is anywhere twice. */
#include "two_heaps.h"

#include <pthread.h>

WITHOUT_SAMPLES;

enum { SENDERS = 2, SHARED = 2000, SHARED_SIZE = 32, STEALS = 20 };
#if defined(__SANITIZE_THREAD__)
enum { TAKES = 20000 };
#else
enum { TAKES = 200000 };
#endif

static struct lock shared_lock;
static void *with_program[SHARED]; /* under shared_lock */
static size_t with_program_count;
static _Atomic uint8_t sent[SHARED]; /* 1: somewhere between a sender and a taker */
static _Atomic uint64_t taken, steals_done, errors;
static atomic_bool stop;

/* The number of a block stands behind what a batch needs of it. */
static uint32_t *number_of(void *block) { return (uint32_t *)(void *)((char *)block + 16); }

static void hand_to_program(void *block) {
  lock_acquire(&shared_lock);
  with_program[with_program_count++] = block;
  lock_release(&shared_lock);
}

static void *take_from_program(void) {
  void *block = NULL;
  lock_acquire(&shared_lock);
  if (with_program_count > 0) block = with_program[--with_program_count];
  lock_release(&shared_lock);
  return block;
}

static void *send_for_ever(void *seed) {
  uint64_t random = (uintptr_t)seed;
  struct thread_cache *heap = cache_borrow();
  while (heap != NULL && !atomic_load(&stop)) {
    void *block = take_from_program();
    if (block == NULL) {
      remote_flush(heap);
      sched_yield();
      continue;
    }
    if (atomic_fetch_add(&sent[*number_of(block)], 1) != 0) atomic_fetch_add(&errors, 1);
    /* As free does it, but that its bytes stay. */
    link_set_state(block, class_for(SHARED_SIZE), STATE_FREE + class_for(SHARED_SIZE));
    uint64_t choice = random_below(&random, 4);
    if (choice == 0) remote_free(heap, map_inbox(block), block);
    else remote_free_now(map_inbox(block), block);
    if (choice == 1) remote_flush(heap);
  }
  if (heap == NULL) atomic_fetch_add(&errors, 1);
  else cache_return(heap); /* sends what it gathered */
  return NULL;
}

static void take_list(void *list, unsigned count) {
  unsigned found = 0;
  while (list != NULL) {
    void *next = link_next(list);
    if (atomic_fetch_sub(&sent[*number_of(list)], 1) != 1) atomic_fetch_add(&errors, 1);
    link_set_state(list, class_for(SHARED_SIZE), STATE_LIVE | class_for(SHARED_SIZE));
    memset(list, 0xee, 16); /* the program writes to it */
    hand_to_program(list);
    list = next;
    found++;
  }
  if (found != count) atomic_fetch_add(&errors, 1);
  atomic_fetch_add(&taken, found);
}

/* As refill does it. */
static bool take_or_steal(struct thread_cache *heap) {
  unsigned size_class = class_for(SHARED_SIZE);
  void *list = NULL;
  lock_acquire(&heap->arena->lock);
  unsigned count = remote_take_batch(heap->arena, size_class, &list);
  if (count == 0 && heap != owner && lock_try(&owner->arena->lock)) {
    bool stolen = remote_steal(heap->arena, owner->arena, size_class);
    lock_release(&owner->arena->lock);
    if (stolen) {
      atomic_fetch_add(&steals_done, 1);
      count = remote_take_batch(heap->arena, size_class, &list);
      if (count == 0) atomic_fetch_add(&errors, 1);
    }
  }
  lock_release(&heap->arena->lock);
  take_list(list, count);
  return count > 0;
}

static void *steal_for_ever(void *unused) {
  while (!atomic_load(&stop))
    if (!take_or_steal(other)) sched_yield();
  return unused;
}

static void no_block_is_lost_between_threads(void **state) {
  (void)state;
  pthread_t senders[SENDERS], thief;
  for (uint32_t i = 0; i < SHARED; i++) {
    void *block = block_of_own_class(SHARED_SIZE);
    *number_of(block) = i;
    hand_to_program(block);
  }
  assert_int_equal(pthread_create(&thief, NULL, steal_for_ever, NULL), 0);
  for (uintptr_t i = 0; i < SENDERS; i++)
    assert_int_equal(pthread_create(&senders[i], NULL, send_for_ever, (void *)(i + 1)), 0);
  /* Far more rounds than it takes: where blocks are lost there would be no end. */
  for (int round = 0; round < 1000000 && atomic_load(&errors) == 0; round++) {
    if (atomic_load(&taken) >= TAKES && atomic_load(&steals_done) >= STEALS) break;
    take_or_steal(owner);
    usleep(50); /* looks away, so that there is something to steal */
  }
  atomic_store(&stop, true);
  for (int i = 0; i < SENDERS; i++) pthread_join(senders[i], NULL);
  pthread_join(thief, NULL);
  while (take_or_steal(owner) || take_or_steal(other)) {
  }
  assert_int_equal(atomic_load(&errors), 0);
  assert_int_equal(with_program_count, SHARED);
  assert_true(atomic_load(&taken) >= TAKES && atomic_load(&steals_done) >= STEALS);
  assert_int_equal(inbox_bytes(owner->arena), 0);
  assert_int_equal(inbox_bytes(other->arena), 0);
  for (size_t i = 0; i < SHARED; i++) {
    assert_int_equal(atomic_load(&sent[i]), 0);
    hak_free(with_program[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_block_is_lost_between_threads)};
  return cmocka_run_group_tests_name("sent and taken", tests, start, end);
}
