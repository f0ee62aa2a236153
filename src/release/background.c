/* background.c - the helper thread: there only while something waits to be given back.
 *
 * It sleeps half of HAKMEM_WARM_POOL_DECAY_MS, looks, and ends when what is left is too little to wait for.
 * So an idle process has no thread of ours, no wake-ups, and a program whose threads have all ended
 * ends. In a static program it cannot be told which free comes from where no thread may be started
 * (release_note_caller): there it is started while memory grows, and sleeps instead of ending.
 */
#include "release/background.h"

#include "heap/shared_tick.h"
#include "os/file.h"
#include "policy/container.h"
#include "policy/options.h"
#include "release/marks.h"
#include "release/release.h"
#include "superslab/unit_os.h"

enum { INTERVAL_LEAST_MS = 10, INTERVAL_MOST_MS = 10000, RETRY_MS = 1000 };

_Thread_local bool release_for_loader;

static uint32_t interval_ms(void) {
  int32_t half = option_value(WARM_POOL_DECAY_MS) / 2;
  return (uint32_t)(half < INTERVAL_LEAST_MS  ? INTERVAL_LEAST_MS
                    : half > INTERVAL_MOST_MS ? INTERVAL_MOST_MS
                                              : half);
}

static bool threads_left(void) { return heap_active() > 0; }

/* --- pressure ---------------------------------------------------------------------------------------------- */

/* The helper's alone. */
static struct container container;

/* An operator may change the limits, or move the process. Reading follows the list of mounts, so not at each look. */
enum { LIMITS_MS = 1000 };

static void read_container(void) {
  static uint64_t read_ms;
  uint64_t now = os_clock_ms();
  if (read_ms != 0 && now - read_ms < LIMITS_MS) return;
  read_ms = now;
  container_read(&container);
}

/* A trigger for waiting tasks, -1 without; `*limits`: whether this kernel lets us look at all. */
static int container_open(bool *limits) {
  /* A table of descriptors for this thread alone, see os/file.h. It ends with the thread. */
  *limits = option_value(CONTAINER) && os_files_of_own();
  if (!*limits) return -1;
  container_read(&container);
  return container_pressure_open(&container);
}

/* Looks that memory has to stay untouched under the present pressure. Near the group's limit everything free goes;
 * tasks that wait for memory may only be reading a large file, so then what is young stays. */
static unsigned looks_under_pressure(bool limits, int *trigger) {
  if (!limits) return LOOKS;
  read_container();
  large_set_tight(container_is_half_used(&container));
  if (container_is_tight(&container)) return 0;
  if (*trigger < 0) return LOOKS;
  enum os_file_event event = os_file_wait(*trigger, 0);
  if (event == OS_FILE_GONE) {
    os_file_close(*trigger);
    *trigger = -1;
  }
  return event == OS_FILE_NEWS ? LOOKS - 1 : LOOKS;
}

/* --- the thread -------------------------------------------------------------------------------------------- */

static void set_marks(void) {
  for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
    lock_acquire(&heap->lock);
    engine_set_mark(heap);
    lock_release(&heap->lock);
  }
  release_mark_below();
}

/* seq_cst: see engine_call_again. */
static bool is_called_again(void) {
  return atomic_load_explicit(&engine_called_again, memory_order_seq_cst);
}

/* Looks until too little waits and nobody has called since the last look began, or no thread is left. The marks are set before another
 * look as well, so that the same memory calls once. */
static void work(bool limits, int *trigger) {
  for (bool ends = false; !ends;) {
    /* acquire: with engine_hurry's release */
    uint32_t heard = atomic_load_explicit(&engine_bell, memory_order_acquire);
    if (!threads_left()) break;
    os_sleep_on(&engine_bell, heard, interval_ms());
    if (!threads_left()) break;
    os_thread_follow_process();
    atomic_store_explicit(&engine_called_again, false, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* see engine_call_again */
    ends = release_pass(looks_under_pressure(limits, trigger)) <= RELEASE_LEFT_OVER;
    shared_tick(false);
    if (ends) set_marks();
    if (is_called_again()) ends = false;
  }
}

/* Takes that state, unless somebody has called meanwhile: then false, and the helper goes on. */
static bool comes_to(uint32_t state) {
  atomic_store_explicit(&engine_helper, state, memory_order_seq_cst);
  return !is_called_again() || !threads_left() ||
         !atomic_compare_exchange_strong_explicit(&engine_helper, &state, HELPER_RUNS,
                                                  memory_order_acquire, memory_order_relaxed);
}

/* Sleeps while `engine_helper` is WAITS. Is there a thread left that has called? */
static bool wait_for_call(void) {
  while (threads_left()) {
    if (atomic_load_explicit(&engine_helper, memory_order_acquire) != HELPER_WAITS) return true;
    os_sleep_on(&engine_helper, HELPER_WAITS, OS_NO_TIMEOUT);
  }
  return false;
}

static void helper_main(void) {
  heap_never_in_this_thread();
  bool limits;
  int trigger = container_open(&limits);
  /* Each store of the state is a release as well: whoever starts or calls the next helper sees what this one has marked as given
   * back. seq_cst for engine_hurry, too. */
  if (os_loader_is_known()) {
    do work(limits, &trigger);
    while (!comes_to(HELPER_NONE));
    return;
  }
  while (wait_for_call()) {
    do work(limits, &trigger);
    while (!comes_to(HELPER_WAITS));
  }
  atomic_store_explicit(&engine_helper, HELPER_NONE, memory_order_release);
}

/* For whoever has set `engine_helper`. A system that refused a thread, or a program that wants none, is asked again only after a
 * while. */
static bool start_thread(void) {
  static uint64_t refused_ms;
  uint64_t now = os_clock_ms();
  bool soon = refused_ms != 0 && now - refused_ms < RETRY_MS;
  unsigned long threads_least = heap_threads_have_ended() ? 1 : 2;
  bool started =
      !soon &&
      (option_value(BACKGROUND) == BACKGROUND_ALWAYS || os_thread_is_welcome(threads_least)) &&
      os_thread_start(helper_main);
  atomic_store_explicit(&engine_helper_refused, !started, memory_order_relaxed);
  if (!started && !soon) refused_ms = now;
  return started;
}

/* False: there is none, and none could be had. */
static bool start_helper(uint32_t state) {
  uint32_t none = HELPER_NONE;
  if (!engine_may_have_helper()) return false;
  if (!atomic_compare_exchange_strong_explicit(&engine_helper, &none, state, memory_order_acquire,
                                               memory_order_relaxed))
    return true;
  if (start_thread()) return true;
  atomic_store_explicit(&engine_helper, HELPER_NONE, memory_order_release);
  return false;
}

bool release_is_on(void) {
  return option_value(WARM_POOL_DECAY_MS) != 0 &&
         option_value(SS_MEM_LEAN_DECOMMIT) != DECOMMIT_OFF;
}

void release_wake(void) {
  struct heap *mine = heap_if_any();
  if (mine != NULL && release_skips_ride(mine)) return; /* one of the next calls looks */
  if (release_for_loader) return;                       /* the next overflow calls again */
  if (!release_is_on()) return;
  /* A plain look first: this is called at each overflow while the helper runs. */
  uint32_t state = atomic_load_explicit(&engine_helper, memory_order_relaxed);
  if (state == HELPER_RUNS) state = engine_call_again();
  if (state == HELPER_RUNS) return;
  if (state == HELPER_WAITS) {
    engine_call();
    return;
  }
  bool was_refused = engine_is_refused();
  if (os_loader_is_known() && start_helper(HELPER_RUNS)) return;
  /* Refused for the first time: more has to wait from now on (engine_worth). Whoever finds that much comes again. */
  if (was_refused || !engine_is_refused() || release_enough_waits(mine)) release_ride();
}

void release_ride_now(struct heap *heap) {
  if (atomic_load_explicit(&engine_helper, memory_order_relaxed) == HELPER_NONE) {
    release_ride();
    return;
  }
  heap->rides = false;
  heap_veil(heap, false);
}

/* Of a thread that ends: it is not in the loader. */
static void when_parked(void) {
  release_for_loader = false;
  release_wake();
}

void release_get_ready(void) {
  if (HAK_UNLIKELY(atomic_load_explicit(&engine_when_parked, memory_order_relaxed) == NULL))
    atomic_store_explicit(&engine_when_parked, when_parked, memory_order_relaxed);
  if (HAK_LIKELY(os_loader_is_known())) return;
  if (atomic_load_explicit(&engine_helper, memory_order_relaxed) != HELPER_NONE) return;
  if (unit_mapped_bytes() < RELEASE_MOST || !release_is_on()) return;
  (void)start_helper(HELPER_WAITS); /* without it, release_wake rides */
}
