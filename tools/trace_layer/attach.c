/* attach.c - how the threads of a process get and give back chunks, once it has found its recorder. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>

#include "append.h"
#include "join.h"
#include "touched.h"

struct trace_chunk trace_no_chunk = {.count = TRACE_EVENTS};
struct trace_chunk trace_in_hand = {.count = TRACE_EVENTS};
_Thread_local struct trace_thread trace_thread = {.chunk = &trace_no_chunk};

/* On until somebody has looked, so that the first event comes to the slow path. */
static struct trace_guard guard_at_start = {.recording = true};
struct trace_guard *trace_guard = &guard_at_start;

static _Atomic uint32_t process = 1; /* another one in the child of a fork */
static pthread_key_t key;
static bool key_made;

uint64_t trace_clock_monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void trace_stop(void) {
  atomic_store_explicit(&trace_guard->recording, false, memory_order_relaxed);
}

/* --- attaching, once ----------------------------------------------------------------------------------------- */

static _Atomic bool attached;
static _Atomic pid_t attaching;

static void at_thread_end(void *unused);

/* No signal handler comes between: its child, if it forks, would go on with half of what is the parent's. */
static void attach(void) {
  static struct trace_guard guard_off;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (!trace_join()) trace_guard = &guard_off;
  else if (!key_made) key_made = pthread_key_create(&key, at_thread_end) == 0;
  atomic_store_explicit(&attached, true, memory_order_release);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool attach_once(void) {
  if (atomic_load_explicit(&attached, memory_order_acquire)) return trace_is_on();
  pid_t nobody = 0;
  if (atomic_compare_exchange_strong(&attaching, &nobody, getpid())) {
    attach();
    return trace_is_on();
  }
  while (!atomic_load_explicit(&attached, memory_order_acquire)) {
    if (getpid() != nobody) { /* forked while another thread was at it */
      trace_stop();
      return false;
    }
    os_yield();
  }
  return trace_is_on();
}

/* The child of a fork attaches anew at its first event. It has its parent's chunk in hand if a signal handler has forked in
 * the middle of an event, of which this is the end: that chunk takes no more. */
void trace_begin_child(struct trace_guard *guard) {
  if (guard == NULL) return;
  atomic_fetch_add(&process, 1);
  touched_forget();
  if (trace_thread.chunk != &trace_in_hand) {
    trace_thread.chunk = &trace_no_chunk;
  } else if (trace_thread.events != NULL && trace_header != NULL) {
    size_t events = (size_t)(trace_thread.events - trace_events(trace_header, 0));
    atomic_store(&trace_chunks(trace_header)[events / TRACE_EVENTS].count, TRACE_EVENTS);
  }
  atomic_store(&attaching, 0);
  atomic_store(&attached, false);
  trace_guard = guard;
  atomic_store(&guard->recording, true);
}

/* --- chunks -------------------------------------------------------------------------------------------------- */

/* The lowest first: it is the one most likely to be in the cache. */
static struct trace_chunk *claim_chunk(void) {
  struct trace_chunk *chunks = trace_chunks(trace_header);
  for (uint32_t i = 0; i < trace_chunks_mapped; i++) {
    uint32_t state = TRACE_FREE_CHUNK;
    if (atomic_load_explicit(&chunks[i].state, memory_order_relaxed) != state) continue;
    uint32_t used = atomic_load_explicit(&trace_header->used, memory_order_relaxed);
    while (used <= i && !atomic_compare_exchange_weak(&trace_header->used, &used, i + 1)) continue;
    /* acquire: the recorder has read the events before new ones are written over them */
    if (atomic_compare_exchange_strong_explicit(&chunks[i].state, &state, TRACE_OWNED,
                                                memory_order_acquire, memory_order_relaxed))
      return &chunks[i];
  }
  return NULL;
}

/* Waits while the recorder has much to do. NULL: recording has ended, or more threads live than there are chunks. */
static struct trace_chunk *get_chunk(void) {
  for (;;) {
    if (atomic_load(&trace_header->ended) != 0) {
      trace_stop(); /* what comes now is not lost: the trace ends before it, and the recorder says why */
      return NULL;
    }
    uint32_t seen = atomic_load(&trace_header->given);
    uint32_t full = atomic_load(&trace_header->full);
    if (full < TRACE_FULL_MOST) {
      struct trace_chunk *chunk = claim_chunk();
      if (chunk != NULL || full == 0) return chunk;
    }
    if (!trace_recorder_is_there()) {
      trace_stop();
      return NULL;
    }
    trace_wait_for_recorder(seen);
  }
}

static void hand_over(struct trace_chunk *chunk) {
  atomic_fetch_add(&trace_header->full, 1);
  atomic_store_explicit(&chunk->state, TRACE_FULL, memory_order_release);
  trace_wake_recorder();
}

static void begin_thread(uint32_t of_process) {
  trace_thread.thread = atomic_fetch_add(&trace_header->threads, 1);
  trace_thread.number = 0;
  trace_thread.process = of_process;
  if (trace_thread.begun || !key_made) return;
  trace_thread.begun = true;
  trace_thread.calls_out = true; /* setting a value may allocate */
  pthread_setspecific(key, &trace_thread);
  trace_thread.calls_out = false;
}

/* A fresh chunk in the thread's hand; `old`: what it had. */
static struct trace_room take(struct trace_chunk *old) {
  struct trace_room none = {NULL, NULL};
  uint32_t of_process;
  do { /* again in the child, if a signal handler forks meanwhile; here, and up to the end */
    of_process = atomic_load(&process);
    if (!attach_once()) return none;
  } while (of_process != atomic_load(&process));
  bool is_new = trace_thread.process != of_process;
  if (old != &trace_no_chunk && !is_new) hand_over(old);
  struct trace_chunk *chunk = get_chunk();
  if (chunk == NULL) return none;
  /* What happens past its end, the thread does as another one, of one event. */
  if (is_new || trace_thread.ended) begin_thread(of_process);
  chunk->thread = trace_thread.thread;
  chunk->number = trace_thread.number++;
  trace_thread.events = trace_events(trace_header, (uint32_t)(chunk - trace_chunks(trace_header)));
  if (atomic_load(&process) != of_process) return none;
  return (struct trace_room){chunk, trace_thread.events};
}

HAK_COLD struct trace_room trace_take_slow(unsigned count) {
  struct trace_chunk *old = trace_thread.chunk;
  if (old == &trace_in_hand) { /* a signal handler, or the layer's own doing */
    if (trace_header != NULL && !trace_thread.calls_out)
      atomic_fetch_add(&trace_header->lost, count);
    return (struct trace_room){NULL, NULL};
  }
  int saved = errno;
  trace_thread.chunk = &trace_in_hand;
  struct trace_room room = take(old);
  if (room.events == NULL) {
    trace_thread.chunk = &trace_no_chunk;
    if (trace_is_on()) atomic_fetch_add(&trace_header->lost, count);
  }
  errno = saved;
  return room;
}

/* --- threads' ends --------------------------------------------------------------------------------------------- */

HAK_COLD void trace_leave(struct trace_room room) {
  uint32_t used = atomic_load_explicit(&room.chunk->count, memory_order_relaxed);
  trace_write(&trace_thread.events[used], trace_now(), NULL, 0, TRACE_THREAD_END);
  atomic_store_explicit(&room.chunk->count, used + 1, memory_order_release);
  if (trace_thread.process == atomic_load(&process)) hand_over(room.chunk);
  trace_thread.chunk = &trace_no_chunk;
}

static void at_thread_end(void *unused) {
  (void)unused;
  /* In the last round, after the destructors of others, which free what they have. */
  if (++trace_thread.rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    trace_thread.calls_out = true;
    pthread_setspecific(key, &trace_thread);
    trace_thread.calls_out = false;
    return;
  }
  if (!trace_is_on()) return;
  struct trace_room room = trace_take(1);
  if (room.events == NULL) return;
  trace_thread.ended = true;
  trace_leave(room);
}
