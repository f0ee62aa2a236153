/* cancellation.c - threads that hold blocks are cancelled: while they allocate (deferred: malloc and free are no points of
 * cancellation), in a wait between two calls, and at any instruction (asynchronously) where they only read their blocks, which is
 * what POSIX lets such a thread do.
 *
 * Half of them free what they have in their clean-up handler, the others leave it to those who come later. After each wave every
 * tier has to work at once: no lock is held by a thread that is no more. In the end all that was left has been freed by others,
 * the heaps of the threads have been taken over, and nothing is left (work.h).
 *
 * usage: cancellation [seconds [threads a wave]] */
#include "work.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { WAVE_MOST = 16, OWN = 24 };

enum way { DEFERRED, IN_WAIT, ASYNCHRONOUS, WAYS };
static const char *const names[WAYS] = {"deferred", "in_wait", "asynchronous"};
static atomic_ulong counts[WAYS];
static pthread_key_t key;

struct victim {
  pthread_t id;
  enum way way;
  uint64_t number;
  atomic_bool running;
  _Atomic(kit_block) own[OWN];
  volatile bool inside; /* between the call of an allocator function and its return */
};

static void clean(void *argument) {
  struct victim *victim = argument;
  CHECK(!victim->inside, "a thread was cancelled inside of the allocator");
  struct kit_rng rng = kit_rng_make(victim->number + 5);
  for (size_t i = 0; i < OWN; i++) {
    kit_block block = atomic_exchange(&victim->own[i], 0);
    if (victim->number % 2 == 0) work_drop(block);
    else work_drop(work_exchange(kit_random(&rng), block));
  }
  work_every_tier(&rng); /* a handler may allocate */
  atomic_fetch_add(&counts[victim->way], 1);
}

/* Runs after the clean-up handlers, when the thread has ended for the program: it may allocate as well. */
static void at_end(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  work_every_tier(&rng);
}

static void allocate(struct victim *victim, struct kit_rng *rng, int calls) {
  victim->inside = true;
  for (int i = 0; i < calls; i++) {
    _Atomic(kit_block) *slot = &victim->own[kit_below(rng, OWN)];
    kit_block block = atomic_load(slot);
    if (block == 0) {
      atomic_store(slot, work_take(rng, kit_any_size(rng)));
    } else {
      atomic_store(slot, 0);
      work_drop(block);
    }
  }
  if (kit_random(rng) % 16 == 0) kit_purge();
  victim->inside = false;
}

/* Nothing but reads. */
static void look_for_a_while(struct victim *victim) {
  int before;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  for (int round = 0; round < 20; round++)
    for (size_t i = 0; i < OWN; i++)
      if (victim->own[i] != 0) kit_block_check(victim->own[i]);
  pthread_setcanceltype(before, &before);
}

static void *work(void *argument) {
  struct victim *victim = argument;
  struct kit_rng rng = kit_rng_make(victim->number);
  pthread_cleanup_push(clean, victim);
  pthread_setspecific(key, (void *)(uintptr_t)(victim->number + 1));
  for (;;) {
    allocate(victim, &rng, 30);
    atomic_store(&victim->running, true);
    if (victim->way == DEFERRED) pthread_testcancel();
    else if (victim->way == IN_WAIT) usleep(1000);
    else look_for_a_while(victim);
  }
  pthread_cleanup_pop(1);
  return NULL;
}

static void wave(uint64_t number, unsigned threads) {
  static struct victim victims[WAVE_MOST];
  for (unsigned i = 0; i < threads; i++) {
    victims[i].number = number * WAVE_MOST + i;
    victims[i].way = (enum way)((number + i) % WAYS);
    atomic_store(&victims[i].running, false);
    CHECK(pthread_create(&victims[i].id, NULL, work, &victims[i]) == 0, "cannot create a thread");
  }
  struct kit_rng rng = kit_rng_make(number + 1000000);
  for (unsigned i = 0; i < threads; i++)
    while (!atomic_load(&victims[i].running)) sched_yield();
  usleep((unsigned)kit_below(&rng, 3000));
  for (unsigned i = 0; i < threads; i++)
    CHECK(pthread_cancel(victims[i].id) == 0, "pthread_cancel");
  for (unsigned i = 0; i < threads; i++) {
    void *result = NULL;
    CHECK(pthread_join(victims[i].id, &result) == 0, "pthread_join");
    CHECK(result == PTHREAD_CANCELED, "a thread ended in another way");
  }
  work_every_tier(&rng);
}

int main(int argc, char **argv) {
  kit_start();
  unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
  unsigned threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 6;
  CHECK(threads <= WAVE_MOST, "at most %d threads", WAVE_MOST);
  CHECK(pthread_key_create(&key, at_end) == 0, "no key");
  work_begin(1, seconds + 120);
  uint64_t end = work_now_ms() + seconds * 1000, waves = 0;
  do wave(waves++, threads);
  while (work_now_ms() < end);
  work_figure("waves", waves);
  for (int i = 0; i < WAYS; i++) {
    CHECK(counts[i] > 0, "no thread was cancelled %s", names[i]);
    work_figure(names[i], counts[i]);
  }
  work_end(WORK_ALL_BACK);
  return 0;
}
