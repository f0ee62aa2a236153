/* background.c - the helper thread: it gives memory back while the program has a second thread.
 *
 * It is started by malloc while memory grows, or when a thread is new: by no free, for libc frees under locks that starting a thread
 * takes. While memory waits it looks each half of HAKMEM_WARM_POOL_DECAY_MS; then it sleeps until it is called, without a time-out. It
 * ends when the program has one thread again. The end of a thread that has a heap rings for it; for others, which nobody hears of, it
 * asks the kernel, as long as it has work.
 */
#include "release/background.h"

#include "heap/adopt.h"
#include "heap/shared_tick.h"
#include "os/file.h"
#include "policy/container.h"
#include "policy/options.h"
#include "release/beat.h"
#include "release/box.h"
#include "release/growth.h"
#include "release/limit.h"
#include "release/release.h"
#include "superslab/unit_os.h"

/* Between two questions to the kernel whether the program has one thread again: it is to end within 10 ms of that. Two scans are as
 * far apart as the longest of these, at least, and two looks whether a thread may be started now. */
enum { ALONE_LEAST_MS = 1, ALONE_MOST_MS = 8 };

static uint32_t interval_ms(void) {
  int32_t half = option_value(WARM_POOL_DECAY_MS) / 2;
  return (uint32_t)(half < ALONE_MOST_MS ? ALONE_MOST_MS : half);
}

/* Has the program another thread than the main one? The last of those that have a heap rings as it ends, which it does a moment later.
 * Where the kernel does not say, a program that had a second thread when the helper was started has it still. */
static bool is_wanted(void) {
  if (purger_end_is_reported()) return true;
  enum { MAIN_AND_HELPER = 2 };
  return heap_active() > 0 && os_process_threads() != MAIN_AND_HELPER;
}

/* --- pressure ---------------------------------------------------------------------------------------------- */

/* The helper's alone. */
static struct container container;

/* An operator may change the limits, or move the process. Reading follows the list of mounts, so not at each scan. */
static void read_container(void) {
  static uint64_t read_ms;
  uint64_t now = os_clock_ms();
  if (read_ms != 0 && now - read_ms < READ_AGAIN_MS) return;
  read_ms = now;
  container_read(&container);
  limit_note(&container);
}

/* What the helper knows of it, of its own from its first scan on. */
struct pressure {
  bool opened;
  bool limits; /* this kernel lets us look */
  int trigger; /* for waiting tasks, -1 without */
};

static void open_pressure(struct pressure *pressure) {
  pressure->opened = true;
  /* A table of descriptors for this thread alone, see os/file.h. It ends with the thread. */
  pressure->limits = option_value(CONTAINER) && os_files_of_own();
  if (!pressure->limits) return;
  container_read(&container);
  limit_note(&container);
  pressure->trigger = container_pressure_open(&container);
}

/* Scans that memory has to stay untouched under the present pressure. Near the group's limit everything free goes;
 * tasks that wait for memory may only be reading a large file, so then what is young stays. */
static unsigned scans_under_pressure(struct pressure *pressure) {
  if (!pressure->opened) open_pressure(pressure);
  if (!pressure->limits) return IDLE_SCANS;
  read_container();
  span_cache_set_tight(container_is_half_used(&container));
  if (container_is_tight(&container)) return 0;
  if (pressure->trigger < 0) return IDLE_SCANS;
  enum os_file_event event = os_file_wait(pressure->trigger, 0);
  if (event == OS_FILE_GONE) {
    os_file_close(pressure->trigger);
    pressure->trigger = -1;
  }
  return event == OS_FILE_NEWS ? IDLE_SCANS - 1 : IDLE_SCANS;
}

/* --- the thread -------------------------------------------------------------------------------------------- */

/* seq_cst: see purger_call_again. */
static bool is_called_again(void) {
  return atomic_load_explicit(&purger_called_again, memory_order_seq_cst);
}

/* Sleeps until the next scan; false: the helper is not wanted any more. */
static bool rest(void) {
  uint64_t until = os_clock_ms() + interval_ms();
  uint32_t step = ALONE_LEAST_MS, heard_before = 0;
  for (;;) {
    /* acquire: with purger_wake's release */
    uint32_t heard = atomic_load_explicit(&purger_bell, memory_order_acquire);
    if (!is_wanted()) return false;
    box_serve();
    limit_serve();
    release_growth_serve(is_wanted);
    uint64_t now = os_clock_ms();
    if (now >= until) return true;
    if (heard != heard_before) step = ALONE_LEAST_MS;
    heard_before = heard;
    uint32_t ms = (uint32_t)(until - now);
    if (!purger_end_is_reported()) {
      if (ms > step) ms = step;
      if (step < ALONE_MOST_MS) step *= 2;
    }
    os_sleep_on(&purger_bell, heard, ms);
  }
}

/* Looks until too little waits and nobody has called since the last scan began. False: the helper is not wanted any more. */
static bool work(struct pressure *pressure) {
  for (bool ends = false; !ends;) {
    if (!rest()) return false;
    atomic_store_explicit(&purger_called_again, false, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* see purger_call_again */
    unsigned idle_scans = scans_under_pressure(pressure);
    ends = !release_is_on() || release_scan(idle_scans, is_wanted) <= RELEASE_LEFT_OVER;
    os_thread_follow_process(); /* behind the first look for files, which makes a table for them */
    shared_tick(false);
    if (is_called_again()) ends = false;
  }
  return true;
}

/* The state goes from WAITS to that one, unless somebody has called. seq_cst: see purger_wake. */
static bool comes_to(uint32_t state) {
  uint32_t waits = HELPER_WAITS;
  return atomic_compare_exchange_strong_explicit(&purger_helper, &waits, state,
                                                 memory_order_seq_cst, memory_order_acquire);
}

/* Nothing waits. True: somebody has called. False: the state is NONE, since nobody would tell that the program has one thread again. */
static bool wait_for_call(void) {
  atomic_store_explicit(&purger_helper, HELPER_WAITS, memory_order_seq_cst);
  /* A call that came before the state was seen. If the state has changed somebody has called as well. */
  if (is_called_again()) {
    (void)comes_to(HELPER_RUNS);
    return true;
  }
  while (purger_end_is_reported()) {
    if (atomic_load_explicit(&purger_helper, memory_order_acquire) != HELPER_WAITS) return true;
    os_sleep_on(&purger_helper, HELPER_WAITS, OS_NO_TIMEOUT);
  }
  return !comes_to(HELPER_NONE);
}

static void helper_main(void) {
  /* relaxed: read when the state says that the helper has ended */
  atomic_store_explicit(&purger_helper_thread, os_thread(), memory_order_relaxed);
  heap_never_in_this_thread();
  struct pressure pressure = {.trigger = -1};
  if (box_is_on()) open_pressure(&pressure); /* before it opens files */
  while (work(&pressure))
    if (!wait_for_call()) return;
  /* The program's own calls go on with what is left. release, as all stores of the state: whoever starts the next helper sees what this
   * one has marked as given back. */
  atomic_store_explicit(&purger_unheard, true, memory_order_relaxed);
  atomic_store_explicit(&purger_helper, HELPER_NONE, memory_order_release);
}

enum start { STARTED, REFUSED, NOT_NOW };

/* For the thread that has set `purger_helper`. A system that refused a thread is asked again only after a while, and a filter of system
 * calls stays for good. */
static enum start start_thread(void) {
  static _Atomic uint64_t put_off_ms; /* relaxed: a hint */
  uint64_t now = os_clock_ms();
  if (now - atomic_load_explicit(&put_off_ms, memory_order_relaxed) < ALONE_MOST_MS) return NOT_NOW;
  enum os_welcome welcome =
      option_value(BACKGROUND) == BACKGROUND_ALWAYS ? OS_THREAD_WELCOME : os_thread_is_welcome();
  /* A filter may kill for the look. */
  if (welcome == OS_THREAD_WELCOME && os_is_in_loader()) {
    atomic_store_explicit(&put_off_ms, now, memory_order_relaxed);
    return NOT_NOW;
  }
  if (welcome == OS_THREAD_WELCOME && os_thread_start(helper_main)) return STARTED;
  atomic_store_explicit(&purger_refused_ms, welcome == OS_THREAD_NEVER ? REFUSED_FOR_GOOD : now,
                        memory_order_relaxed);
  return REFUSED;
}

static bool is_refused(void) {
  uint64_t refused = atomic_load_explicit(&purger_refused_ms, memory_order_relaxed);
  return refused != 0 && (refused == REFUSED_FOR_GOOD || os_clock_ms() - refused < READ_AGAIN_MS);
}

/* Has the program one thread, and no helper for it? That changes without a sign, within pthread_create, which may allocate while there is
 * one still. So memory that grows, and a thread that is new, always ask; others now and then. */
static bool is_alone(bool grew) {
  static _Atomic uint64_t alone_ms; /* relaxed: a hint */
  if (option_value(BACKGROUND) == BACKGROUND_ALWAYS) return purger_is_in_vfork();
  uint64_t now = os_clock_ms();
  if (!grew && now - atomic_load_explicit(&alone_ms, memory_order_relaxed) < READ_AGAIN_MS)
    return true;
  bool alone = os_process_threads() == 1;
  atomic_store_explicit(&alone_ms, alone ? now : 0, memory_order_relaxed);
  return alone;
}

/* Not once the last heap has lost its thread: see purger_see_helper_end. */
static bool may_start(bool grew) {
  return purger_may_have_helper() && heap_active() > 0 && !is_refused() && !is_alone(grew);
}

static enum start start_helper(void) {
  uint32_t none = HELPER_NONE;
  if (!atomic_compare_exchange_strong_explicit(&purger_helper, &none, HELPER_RUNS,
                                               memory_order_acquire, memory_order_relaxed))
    return STARTED;
  enum start start = start_thread();
  /* seq_cst: see release_request_beats */
  if (start != STARTED) atomic_store_explicit(&purger_helper, HELPER_NONE, memory_order_seq_cst);
  return start;
}

bool release_is_on(void) {
  return option_value(WARM_POOL_DECAY_MS) != 0 &&
         option_value(SS_MEM_LEAN_DECOMMIT) != DECOMMIT_OFF;
}

/* Is there a helper, which knows by now? */
static bool is_heard(void) {
  /* A plain look first: this is called at each overflow while the helper runs. */
  uint32_t state = atomic_load_explicit(&purger_helper, memory_order_relaxed);
  while (state != HELPER_NONE) {
    if (state == HELPER_WAITS && purger_call()) return true;
    state = purger_call_again();
    if (state == HELPER_RUNS) return true;
  }
  return false;
}

void release_wake(void) {
  if (!release_is_on() || is_heard()) return;
  if (purger_may_have_helper()) atomic_store_explicit(&purger_unheard, true, memory_order_relaxed);
  release_request_beats();
  /* What ended threads have left, and were sent, nobody else sorts where the program makes no call for long. */
  struct thread_cache *cache = cache_if_any();
  if (cache == NULL) return;
  adopt_put_back_left(cache->arena);
  superslab_settle();
}

bool release_ring(void) {
  bool heard = is_heard();
  if (heard) purger_wake(); /* also from its rest between two scans */
  return heard;
}

void release_call(void) {
  if (!release_ring() && purger_may_have_helper())
    atomic_store_explicit(&purger_unheard, true, memory_order_relaxed);
}

static void when_parked(void) {
  release_wake();
  if (heap_active() > 1) release_get_ready(false);
}

void release_get_ready(bool grew) {
  if (HAK_UNLIKELY(atomic_load_explicit(&purger_when_parked, memory_order_relaxed) == NULL))
    atomic_store_explicit(&purger_when_parked, when_parked, memory_order_relaxed);
  if (atomic_load_explicit(&purger_helper, memory_order_relaxed) != HELPER_NONE) return;
  bool unheard = purger_is_unheard();
  if (!unheard && unit_mapped_bytes() < RELEASE_MOST) return;
  if (!release_is_on() && !box_is_on()) return;
  /* Last, for it makes system calls: in programs that get no helper each Large block would pay for it. */
  enum start start = REFUSED;
  bool tries = may_start(grew);
  if (tries) {
    if (unheard) atomic_store_explicit(&purger_unheard, false, memory_order_relaxed);
    start = start_helper();
  }
  /* The next slow path comes again, for whoever called meanwhile as well. */
  if (start == NOT_NOW) atomic_store_explicit(&purger_unheard, true, memory_order_relaxed);
  /* While it was tried others have taken the helper for one that knows. */
  if (start == REFUSED && (unheard || tries)) {
    atomic_store_explicit(&purger_unheard, false, memory_order_relaxed);
    if (release_is_on()) release_request_beats();
  }
}
