/* workers.c - see workers.h. A thread has a ring of actions, filled by the thread that reads the input alone. */
#include "workers.h"

#include "actions.h"
#include "model.h"

#include <pthread.h>

enum { RING = 16, FEW = 16, GROUPS = SLOTS / FEW };

static struct worker {
  pthread_t id;
  bool runs, end;
  unsigned given, done; /* numbers of actions, under the lock */
  struct action ring[RING];
} workers[THREADS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Who used these slots last, and as which of its actions. */
static struct use { unsigned thread, number; } uses[GROUPS];

static void *work(void *argument) {
  struct worker *me = argument;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (me->given == me->done && !me->end) pthread_cond_wait(&changed, &lock);
    if (me->given == me->done) break;
    struct action action = me->ring[me->done % RING];
    pthread_mutex_unlock(&lock);
    action_do(&action);
    pthread_mutex_lock(&lock);
    me->done++;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void wait_until_done(struct worker *worker, unsigned number) {
  pthread_mutex_lock(&lock);
  while ((int)(worker->done - number) < 0) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

void workers_wait(unsigned thread, bool end) {
  struct worker *worker = &workers[thread];
  if (!worker->runs) return;
  wait_until_done(worker, worker->given);
  if (!end) return;
  pthread_mutex_lock(&lock);
  worker->end = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  pthread_join(worker->id, NULL);
  worker->runs = worker->end = false;
}

void workers_wait_all(bool end) {
  for (unsigned i = 1; i < THREADS; i++) workers_wait(i, end);
}

static void give(unsigned thread, const struct action *action) {
  struct worker *worker = &workers[thread];
  if (!worker->runs) {
    if (pthread_create(&worker->id, NULL, work, worker) != 0) fuzz_fail("cannot start a thread");
    worker->runs = true;
  }
  wait_until_done(worker, worker->given + 1 - RING); /* there is room */
  pthread_mutex_lock(&lock);
  worker->ring[worker->given % RING] = *action;
  worker->given++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static bool has_slot(enum action_kind kind) {
  return kind <= ACTION_OWNS || kind == ACTION_HEAP_MALLOC;
}

/* The groups of slots that an action may use: one, but for those of many blocks. */
static unsigned groups_of(const struct action *action) {
  if (!has_slot(action->kind)) return 0;
  bool many = action->kind == ACTION_MANY || action->kind == ACTION_FREE_MANY;
  return many ? GROUPS : 1;
}

void workers_do(const struct action *action, bool at_once) {
  unsigned thread = action->thread, groups = groups_of(action), first = action->slot / FEW;
  for (unsigned i = 0; i < groups; i++) {
    struct use *use = &uses[(first + i) % GROUPS];
    if (use->thread != thread && use->thread != 0)
      wait_until_done(&workers[use->thread], use->number);
  }
  if (thread == 0) action_do(action);
  else give(thread, action);
  for (unsigned i = 0; i < groups; i++)
    uses[(first + i) % GROUPS] = (struct use){thread, workers[thread].given};
  if (!at_once) workers_wait(thread, false);
}
