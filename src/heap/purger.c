/* purger.c - see purger.h. */
#include "heap/purger.h"

#include "heap/homes.h"
#include "heap/slabs.h"
#include "policy/options.h"
#include "superslab/unit_os.h"

/* --- when enough memory waits in a heap -------------------------------------------------------------- */

/* A thread changes what a program may do: with one, unshare(CLONE_NEWUSER) and setns() are refused, libc takes locks that it
 * left alone, a filter of system calls may kill for it. Unless told otherwise, only a program that has a second thread
 * of its own at that moment, and no filter, gets one of ours. The cheap half of that question; the other is os_thread_is_welcome. */
bool purger_may_have_helper(void) {
  if (option_value(BACKGROUND) == BACKGROUND_AUTO) return !os_has_one_thread_for_sure();
  return option_value(BACKGROUND) == BACKGROUND_ALWAYS;
}

_Atomic uint64_t purger_refused_ms;

void purger_forget_refusal(void) {
  uint64_t refused = atomic_load_explicit(&purger_refused_ms, memory_order_relaxed);
  if (HAK_UNLIKELY(refused != 0 && refused != REFUSED_FOR_GOOD))
    atomic_store_explicit(&purger_refused_ms, 0, memory_order_relaxed);
}

size_t purger_worth(void) {
  size_t share = unit_mapped_bytes() / RELEASE_SHARE;
  return share < RELEASE_LEAST ? RELEASE_LEAST : share > RELEASE_MOST ? RELEASE_MOST : share;
}

/* Each heap's part of `worth`. Of less than RELEASE_LEFT_OVER the helper would do nothing. */
static size_t step_of(size_t worth) {
  size_t share = worth / homes_count();
  return share < RELEASE_LEFT_OVER ? RELEASE_LEFT_OVER : share;
}

bool purger_is_worth(size_t bytes) { return bytes >= step_of(purger_worth()); }

void purger_set_mark(struct arena *arena) { arena->free_low = arena->free_bytes; }

/* The step is asked for anew each time: the number of heaps changes, what is mapped, and whether there may be a helper. Where a heap has a
 * part of the whole, what it takes and frees again within that is no new minimum. */
bool purger_is_due(struct arena *arena) {
  if (HAK_LIKELY(arena->free_bytes >= arena->free_low &&
                 arena->free_bytes - arena->free_low < RELEASE_LEFT_OVER))
    return false;
  size_t worth = purger_worth(), step = step_of(worth);
  if (arena->free_bytes >= arena->free_low + step) return true;
  if (arena->free_low + step > arena->free_bytes + worth) purger_set_mark(arena);
  return false;
}

bool purger_growth_is_due(const struct arena *arena) {
  if (HAK_LIKELY(arena->free_bytes < RELEASE_MOST)) return false;
  return slabs_owned(arena) - arena->decommitted_bytes == arena->peak_committed &&
         arena->free_bytes >= arena->peak_committed / RELEASE_SHARE &&
         arena->peak_committed >= arena->growth_purge_from;
}

void purger_growth_recommitted(struct arena *arena) {
  if (arena->recommitted_bytes >= arena->decommitted_bytes / REGRET_SHARE &&
      arena->growth_purge_from <= arena->peak_committed)
    arena->growth_purge_from = 2 * arena->peak_committed;
}

/* Active heaps have their shares, of the most: an inbox has no mark, and one that is never shorter keeps the helper for as long as something
 * is sent. Parked ones may be any number, and none of them has a thread that might come by. */
bool purger_inbox_is_due(const struct arena *arena, int64_t bytes) {
  if (HAK_LIKELY(bytes < (int64_t)RELEASE_LEFT_OVER)) return false;
  enum arena_state state = atomic_load_explicit(&arena->state, memory_order_relaxed);
  if (state == ARENA_LOST) return false; /* nobody would take anything from it */
  return state == ARENA_PARKED || (size_t)bytes >= step_of(RELEASE_MOST);
}

_Atomic(void (*)(void)) purger_when_parked;

/* --- the helper thread ------------------------------------------------------------------------------- */

_Atomic uint32_t purger_helper;
_Atomic uint32_t purger_bell;

bool purger_call(void) {
  uint32_t waits = HELPER_WAITS;
  /* release: what the caller has freed comes before what the helper looks at. */
  if (!atomic_compare_exchange_strong_explicit(&purger_helper, &waits, HELPER_RUNS,
                                               memory_order_release, memory_order_relaxed))
    return false;
  os_wake(&purger_helper);
  return true;
}

atomic_bool purger_called_again;
_Atomic uint8_t purger_beats;
atomic_bool purger_unheard;

static _Atomic int
    noted_process; /* 0: none; relaxed: written before the process has a second thread */

void purger_note_process(void) {
  if (option_value(BACKGROUND) == BACKGROUND_ALWAYS)
    atomic_store_explicit(&noted_process, os_process(), memory_order_relaxed);
}

bool purger_is_in_vfork(void) {
  int noted = atomic_load_explicit(&noted_process, memory_order_relaxed);
  return noted != 0 && noted != os_process() && os_process_threads() == 1;
}

bool purger_end_is_reported(void) {
  return heap_active() > (option_value(BACKGROUND) == BACKGROUND_ALWAYS ? 0 : 1);
}

/* The helper clears the note, then looks at memory. Who finds the note set has been in time. What it has freed comes before its look at
 * the note (the fence), and the helper's clearing before its scans (the fence in `work`), so either the scan sees the memory, or the
 * caller sees the note cleared. So the note is written only where it is clear: this is called at each overflow while the helper runs.
 * seq_cst: here the note is written and the state read, where the helper ends it is the other way round. One of the two sees the other. */
uint32_t purger_call_again(void) {
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&purger_called_again, memory_order_relaxed))
    atomic_store_explicit(&purger_called_again, true, memory_order_seq_cst);
  return atomic_load_explicit(&purger_helper, memory_order_seq_cst);
}

void purger_wake(void) {
  /* seq_cst, with the end of the thread in `active` before, and with WAITS stored and `active` read by the helper:
   * either the helper is seen here, or it sees that the thread has gone. */
  if (atomic_load_explicit(&purger_helper, memory_order_seq_cst) == HELPER_NONE) return;
  /* release: a helper that has heard this bell sees that the thread has ended, and does not wait for another. */
  atomic_fetch_add_explicit(&purger_bell, 1, memory_order_release);
  os_wake(&purger_bell);
  (void)purger_call();
}

_Atomic int purger_helper_thread;

static bool helper_is_there(void) {
  /* acquire, pairs with the release that ends the helper: its number was written before */
  if (atomic_load_explicit(&purger_helper, memory_order_acquire) != HELPER_NONE) return true;
  int thread = atomic_load_explicit(&purger_helper_thread, memory_order_relaxed);
  return thread != 0 && os_thread_exists(thread);
}

void purger_see_helper_end(void) {
  enum { LONGEST_MS = 1000 };
  _Atomic uint32_t word = 0;
  for (uint32_t ms = 0; ms < LONGEST_MS && helper_is_there(); ms++) os_sleep_on(&word, 0, 1);
}

/* --- fork -------------------------------------------------------------------------------------------- */

struct lock purger_scan_lock, purger_batch_lock, purger_limit_lock;
_Atomic size_t purger_limit_due = RELEASE_MOST;

void purger_each_lock(lock_visit *visit, void *argument) { visit(&purger_batch_lock, argument); }

void purger_fork_child(void) {
  /* Slabs that another thread's purger had in its hands stay so in the child: marked, in no list. Cached spans of this thread would be
   * waited for. */
  struct thread_cache *mine = cache_if_any();
  if (!lock_is_whole_in_child(&purger_batch_lock) && mine != NULL)
    span_cache_fork_child(&mine->spans);
  (void)lock_is_whole_in_child(&purger_scan_lock);
  if (!lock_is_whole_in_child(&purger_limit_lock))
    atomic_store_explicit(&purger_limit_due, 0, memory_order_relaxed);
  /* The helper is not in the child. */
  atomic_store_explicit(&purger_helper, HELPER_NONE, memory_order_relaxed);
  atomic_store_explicit(&purger_helper_thread, 0, memory_order_relaxed);
  atomic_store_explicit(&purger_called_again, false, memory_order_relaxed);
  atomic_store_explicit(&purger_unheard, false, memory_order_relaxed);
  /* Heaps that a scan was at may be lost: the next one begins anew. */
  atomic_store_explicit(&purger_beats, BEATS_NONE, memory_order_relaxed);
  purger_note_process();
  purger_forget_refusal();
}
