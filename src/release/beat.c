/* beat.c - see beat.h. */
#include "release/beat.h"

#include "heap/slabs.h"
#include "policy/options.h"
#include "release/background.h"
#include "release/scan.h"

/* The most between two beats: what so many calls like this one ask for, within these bounds. With 64 KiB for all a beat came with each third malloc of
 * 20 KiB. With 16 MiB a program that makes few small calls after many kept what it had freed (docs/decisions/0045). */
enum { BEAT_CALLS = 128 };
#define BEAT_BYTES_LEAST ((int64_t)(64 * KIB))
#define BEAT_BYTES_MOST ((int64_t)(2 * MIB))

/* Under purger_scan_lock. */
static struct scan scan = {.stage = SCAN_DONE};
static _Atomic uint64_t next_scan_ms; /* relaxed: a hint, asked again under the lock */

static _Thread_local struct {
  uint64_t ms;   /* of the thread's last beat */
  int64_t bytes; /* from there to the next one */
} last __attribute__((tls_model("initial-exec")));

/* Without a fence: the program may have a filter of system calls. */
static void begin_scan(void) {
  scan = (struct scan){.idle_scans = IDLE_SCANS};
  atomic_store_explicit(&purger_called_again, false, memory_order_relaxed);
  atomic_store_explicit(&purger_beats, BEATS_GO_ON, memory_order_relaxed);
}

/* The next one comes half the decay time later, or when much waits again. What was called for meanwhile may be what this scan has passed. */
static void end_scan(uint64_t now) {
  uint64_t half = (uint64_t)option_value(WARM_POOL_DECAY_MS) / 2;
  atomic_store_explicit(&next_scan_ms, now + half, memory_order_relaxed);
  if (scan.unexpired > RELEASE_LEFT_OVER ||
      atomic_load_explicit(&purger_called_again, memory_order_relaxed))
    return;
  /* seq_cst: who has called meanwhile saw the beats go on, then its call is seen here, or saw that they do not. */
  atomic_store_explicit(&purger_beats, BEATS_NONE, memory_order_seq_cst);
  if (atomic_load_explicit(&purger_called_again, memory_order_seq_cst))
    atomic_store_explicit(&purger_beats, BEATS_REQUESTED, memory_order_relaxed);
}

static bool is_time(uint64_t now) {
  return now >= atomic_load_explicit(&next_scan_ms, memory_order_relaxed);
}

static void go_on_with_scan(uint64_t now) {
  if (!is_time(now)) return; /* another thread has ended it just now */
  if (scan.stage == SCAN_DONE ||
      atomic_load_explicit(&purger_beats, memory_order_relaxed) == BEATS_REQUESTED)
    begin_scan();
  size_t decommitted = scan.decommitted;
  bool more = true;
  for (unsigned i = 0; more && i < HOLDS_MOST && scan.decommitted - decommitted < RELEASE_LEAST;
       i++)
    more = scan_step(&scan);
  if (!more) end_scan(now);
}

static int64_t most_to_next(size_t size) {
  if (size >= (size_t)BEAT_BYTES_MOST / BEAT_CALLS) return BEAT_BYTES_MOST;
  int64_t most = BEAT_CALLS * (int64_t)size;
  return most > BEAT_BYTES_LEAST ? most : BEAT_BYTES_LEAST;
}

/* When the calling thread's next beat comes. */
static void ask_for_next(uint64_t now, size_t size) {
  int64_t most = most_to_next(size);
  bool ticked = now != last.ms;
  last.bytes = ticked ? 1 : last.bytes < most / 2 ? 2 * last.bytes : most;
  last.ms = now;
  heap_call_soon(last.bytes);
}

/* False: no more of them are wanted. */
static bool beat(uint64_t now) {
  /* A helper knows by now, or comes: the program has a second thread perhaps. If it is refused, who has tried stores the state and then requests
   * beats. seq_cst: then either the state is seen here, or the request comes after this store. */
  if (atomic_load_explicit(&purger_helper, memory_order_relaxed) != HELPER_NONE) {
    atomic_store_explicit(&purger_beats, BEATS_NONE, memory_order_seq_cst);
    if (atomic_load_explicit(&purger_helper, memory_order_seq_cst) == HELPER_NONE)
      atomic_store_explicit(&purger_beats, BEATS_REQUESTED, memory_order_relaxed);
  }
  if (release_has_beats() && is_time(now) && lock_try(&purger_scan_lock)) {
    go_on_with_scan(now);
    lock_release(&purger_scan_lock);
  }
  return release_has_beats();
}

void release_beat(size_t size) {
  release_get_ready(false);
  uint64_t now = os_clock_ms();
  if (beat(now)) ask_for_next(now, size);
  else heap_call_never();
}

void release_beat_of_free(size_t size, size_t bytes) {
  if (cache_if_any() == NULL || !heap_counts_to_call((int64_t)bytes)) return;
  uint64_t now = os_clock_ms();
  if (!beat(now)) heap_call_never();
  /* In the fast variant it would end the calls of malloc that are counted, after many frees for a long time. */
  else if (!HAK_FAST) ask_for_next(now, size);
}

/* All threads that ask share the beats; each has its own again with its next sample at the latest. */
void release_request_beats(void) {
  if (release_has_beats()) {
    if (!atomic_load_explicit(&purger_called_again, memory_order_relaxed))
      atomic_store_explicit(&purger_called_again, true, memory_order_seq_cst);
    heap_call_soon(BEAT_BYTES_LEAST);
    /* seq_cst: see end_scan */
    if (atomic_load_explicit(&purger_beats, memory_order_seq_cst) != BEATS_NONE) return;
  }
  /* seq_cst: see beat */
  atomic_store_explicit(&purger_beats, BEATS_REQUESTED, memory_order_seq_cst);
  heap_call_soon(1);
}
