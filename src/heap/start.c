/* start.c - see start.h.
 *
 * Whoever allocates first reads the options. Functions of libc's are called meanwhile, which programs replace: what takes their place may
 * allocate, and comes back here (docs/decisions/0039). So the lock is one that no call of malloc waits for in the thread that holds it.
 */
#include "heap/start.h"

#include "heap/fork.h"
#include "heap/purger.h"
#include "observe/report.h"
#include "os/libc.h"
#include "policy/options.h"
#include "superslab/unit.h"

atomic_bool heap_started HAK_START_DATA;
static struct lock start_lock HAK_START_DATA;

bool heap_calls_libc(void) {
  return atomic_load_explicit(&heap_started, memory_order_acquire) &&
         option_value(FORCE_LIBC_ALLOC);
}

static void refuse_libc_where_there_is_none(void) {
#if !HAK_FAST
  if (!option_value(FORCE_LIBC_ALLOC) || libc_is_reachable()) return;
  struct report line;
  report_start(&line);
  report_text(&line, "HAKMEM_FORCE_LIBC_ALLOC=1: libc's allocator is not in this (static) program");
  report_end(&line);
  option_values[OPTION_FORCE_LIBC_ALLOC] = 0;
#endif
}

static void read_options_and_make_key(void) {
  options_read();
  purger_note_process();
  refuse_libc_where_there_is_none();
  link_start(); /* before the next call, during which blocks may be allocated */
  heap_make_key();
}

static void prewarm(void) {
  size_t units = unit_prewarm((size_t)option_value(PREWARM_MB) * MIB >> UNIT_SHIFT);
  lock_acquire(&superslab_lock);
  counters_supply(COUNTED_HUGE, SUPPLY_PREFILLED, units);
  lock_release(&superslab_lock);
}

static void initialise(void) {
  static _Thread_local bool starting __attribute__((tls_model("initial-exec")));
  if (atomic_load_explicit(&heap_started, memory_order_acquire)) return;
  fork_register();
  /* Within its own initialisation a thread goes on with what is there: an option that was not read yet is 0. */
  if (starting) return;
  os_ask_at_start();
  lock_acquire(&start_lock);
  bool first = !atomic_load_explicit(&heap_started, memory_order_relaxed);
  if (first) {
    starting = true;
    read_options_and_make_key();
    starting = false;
    /* release: options are read without the lock afterwards */
    atomic_store_explicit(&heap_started, true, memory_order_release);
  }
  lock_release(&start_lock);
  if (!first) return;
  heap_park_at_end();
  /* Without the lock: no other thread has to wait while the pages are made. */
  if (!option_value(FORCE_LIBC_ALLOC) && option_value(PREWARM_MB) > 0) prewarm();
}

bool heap_start(void) {
  initialise();
  return !option_value(FORCE_LIBC_ALLOC);
}

/* --- fork ------------------------------------------------------------------------------------------------- */

void start_each_lock(lock_visit *visit, void *argument) { visit(&start_lock, argument); }

/* Where another thread was at it, heap_started says that it is to be done again. */
void start_fork_child(void) { (void)lock_is_whole_in_child(&start_lock); }
