/* attach.c - how the program finds its recorder, and how its threads get and give back chunks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "append.h"
#include "front/heap.h"
#include "policy/options.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct trace_chunk trace_no_chunk = {.count = TRACE_EVENTS};
struct trace_chunk trace_in_hand = {.count = TRACE_EVENTS};
_Thread_local struct trace_thread trace_thread = {.chunk = &trace_no_chunk};

/* On until somebody has looked, so that the first event comes to the slow path. */
static struct trace_guard guard_at_start = {.recording = true};
struct trace_guard *trace_guard = &guard_at_start;

enum trace_clock trace_clock;
uint64_t trace_ticks_per_second;

static struct trace_header *header;
static uint32_t chunks_mapped;
static struct trace_started *started; /* also in processes that are only counted */
static pthread_key_t key;
static bool key_made;

/* How long a thread sleeps before it looks whether the recorder is still there. */
static const struct timespec look_again = {.tv_nsec = 100000000};

uint64_t trace_clock_monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* --- the recorder ------------------------------------------------------------------------------------------ */

static void stop(void) {
  atomic_store_explicit(&trace_guard->recording, false, memory_order_relaxed);
}

static bool recorder_is_there(void) {
  return atomic_load(&header->ended) == 0 && getppid() == header->recorder;
}

static void wake_recorder(void) {
  /* Both sequentially consistent: the recorder sets its mark, looks at `wake` and sleeps. */
  atomic_fetch_add(&header->wake, 1);
  if (atomic_load(&header->recorder_sleeps) != 0) trace_wake_all(&header->wake);
}

/* Sleeps until the recorder has given something, or for a while; `seen`: value of `given` before the caller looked
 * in vain. */
static void wait_for_recorder(uint32_t seen) {
  atomic_store(&header->waiting, 1);
  trace_sleep(&header->given, seen, &look_again);
}

/* --- what it was told ------------------------------------------------------------------------------------------ */

static const char *parse_number(const char *text, int *number) {
  char *end;
  long value = strtol(text, &end, 10);
  if (end == text || value < 0 || value > INT_MAX) return NULL;
  *number = (int)value;
  return end;
}

static bool is_traces_memory(int file) {
  uint64_t magic;
  return pread(file, &magic, sizeof magic, 0) == sizeof magic && magic == TRACE_MAGIC;
}

/* Under a limit of the address space fewer chunks must do. */
static bool map_memory(int file) {
  for (chunks_mapped = TRACE_CHUNKS; chunks_mapped >= TRACE_FULL_MOST / 2; chunks_mapped /= 2) {
    void *memory =
        mmap(NULL, TRACE_BYTES(chunks_mapped), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) continue;
    madvise(memory, TRACE_BYTES(chunks_mapped), MADV_DONTDUMP);
    header = memory;
    started = trace_started(header);
    return true;
  }
  return false;
}

/* --- processes that the program starts -------------------------------------------------------------------------- */

/* Counted before the fork: the parent may have ended before the child runs. A fork that fails is counted, too. */
static void before_fork(void) { atomic_fetch_add(&started->count, 1); }

/* True if it was not known before. */
static bool make_known(void) {
  uint32_t pid = (uint32_t)getpid() % TRACE_PIDS;
  uint32_t bit = UINT32_C(1) << pid % TRACE_PIDS_OF_A_WORD;
  return (atomic_fetch_or(&started->known[pid / TRACE_PIDS_OF_A_WORD], bit) & bit) == 0;
}

/* Where a limit of memory forbids it, all stays as it was. */
static void hide(size_t from, size_t to) {
  (void)mmap((char *)header + from, to - from, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* A signal handler may have forked in the middle of a recording, which the child then ends: it writes into empty pages
 * of its own, not into what is its parent's. */
static void after_fork_in_child(void) {
  make_known();
  stop();
  if (header == NULL) return;
  hide(0, TRACE_STARTED_AT);
  hide(TRACE_HEADS_AT, TRACE_BYTES(chunks_mapped));
}

static bool watch_forks(void) {
  trace_thread.calls_out = true; /* libc may allocate for its list */
  bool watched = pthread_atfork(before_fork, NULL, after_fork_in_child) == 0;
  trace_thread.calls_out = false;
  return watched;
}

/* The descriptor of the process that is recorded: of a process's own many are closed before it executes a program. */
static int open_memory_of(int pid, int file) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, file);
  return open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

/* In a process that the recorded one, or one of its children, has started. */
static void be_counted(int file, int pid) {
  if (!is_traces_memory(file)) file = open_memory_of(pid, file);
  if (file < 0) return;
  if (is_traces_memory(file)) {
    void *memory = mmap(NULL, sizeof *started, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                        (off_t)TRACE_STARTED_AT);
    if (memory != MAP_FAILED) {
      started = memory;
      if (make_known()) atomic_fetch_add(&started->count, 1);
      watch_forks();
    }
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  }
  close(file);
}

/* --- attaching, once ----------------------------------------------------------------------------------------- */

static bool make_guard(void) {
  void *page =
      mmap(NULL, os_page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  struct trace_guard *guard = page;
  atomic_init(&guard->recording, true);
  /* Unlike the handlers of forks it also works where a program forks past libc, and before any other handler
   * allocates. Linux before 4.14 does not know it. */
  bool wiped = madvise(page, os_page_size(), MADV_WIPEONFORK) == 0;
  if (!watch_forks() && !wiped) return false;
  trace_guard = guard;
  return true;
}

/* The helper thread's own allocations are not the program's, and huge pages would hide which pages were touched. */
static void set_options(void) {
  heap_of_thread(); /* reads them */
#if !HAK_FAST
  option_values[OPTION_BACKGROUND] = 0;
  option_values[OPTION_SS_HUGEPAGE] = HUGEPAGE_OFF;
#endif
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

/* The recorder forgets the program that this process was before, if any. */
static bool be_accepted(void) {
  uint32_t image = atomic_fetch_add(&header->image, 1) + 1;
  wake_recorder();
  for (;;) {
    uint32_t seen = atomic_load(&header->given);
    if (atomic_load(&header->accepted) == image) return true;
    if (!recorder_is_there()) return false;
    wait_for_recorder(seen);
  }
}

static void at_thread_end(void *unused);

static bool attach(void) {
  int file, pid;
  const char *text = os_is_secure() ? NULL : os_env(TRACE_VARIABLE);
  if (text == NULL || (text = parse_number(text, &file)) == NULL || *text++ != ' ' ||
      (text = parse_number(text, &pid)) == NULL || *text != 0)
    return false;
  if (pid != getpid()) {
    be_counted(file, pid);
    return false;
  }
  /* The descriptor stays open: the process may execute another program. */
  if (!is_traces_memory(file) || !map_memory(file) || !recorder_is_there() || !make_guard())
    return false;
  trace_clock = (enum trace_clock)header->clock;
  trace_ticks_per_second = header->ticks_per_second;
  set_options();
  key_made = pthread_key_create(&key, at_thread_end) == 0;
  return be_accepted();
}

static bool attach_once(void) {
  static _Atomic bool done;
  static _Atomic pid_t attaching;
  static struct trace_guard guard_off;
  if (atomic_load_explicit(&done, memory_order_acquire)) return trace_is_on();
  pid_t nobody = 0;
  if (atomic_compare_exchange_strong(&attaching, &nobody, getpid())) {
    if (!attach()) trace_guard = &guard_off;
    atomic_store_explicit(&done, true, memory_order_release);
    return trace_is_on();
  }
  while (!atomic_load_explicit(&done, memory_order_acquire)) {
    if (getpid() != nobody) { /* forked while another thread was at it */
      trace_guard = &guard_off;
      return false;
    }
    os_yield();
  }
  return trace_is_on();
}

/* --- chunks -------------------------------------------------------------------------------------------------- */

/* The lowest first: it is the one most likely to be in the cache. */
static struct trace_chunk *claim_chunk(void) {
  struct trace_chunk *chunks = trace_chunks(header);
  for (uint32_t i = 0; i < chunks_mapped; i++) {
    uint32_t state = TRACE_FREE_CHUNK;
    if (atomic_load_explicit(&chunks[i].state, memory_order_relaxed) != state) continue;
    uint32_t used = atomic_load_explicit(&header->used, memory_order_relaxed);
    while (used <= i && !atomic_compare_exchange_weak(&header->used, &used, i + 1)) continue;
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
    if (atomic_load(&header->ended) != 0) {
      stop(); /* what comes now is not lost: the trace ends before it, and the recorder says why */
      return NULL;
    }
    uint32_t seen = atomic_load(&header->given);
    uint32_t full = atomic_load(&header->full);
    if (full < TRACE_FULL_MOST) {
      struct trace_chunk *chunk = claim_chunk();
      if (chunk != NULL || full == 0) return chunk;
    }
    if (!recorder_is_there()) {
      stop();
      return NULL;
    }
    wait_for_recorder(seen);
  }
}

static void hand_over(struct trace_chunk *chunk) {
  atomic_fetch_add(&header->full, 1);
  atomic_store_explicit(&chunk->state, TRACE_FULL, memory_order_release);
  wake_recorder();
}

static void begin_thread(void) {
  trace_thread.thread = atomic_fetch_add(&header->threads, 1);
  trace_thread.number = 0;
  if (trace_thread.begun || !key_made) return;
  trace_thread.begun = true;
  trace_thread.calls_out = true; /* setting a value may allocate */
  pthread_setspecific(key, &trace_thread);
  trace_thread.calls_out = false;
}

/* A fresh chunk in the thread's hand; `old`: what it had. */
static struct trace_room take(struct trace_chunk *old) {
  struct trace_room none = {NULL, NULL};
  if (!attach_once()) return none;
  if (old != &trace_no_chunk) hand_over(old);
  struct trace_chunk *chunk = get_chunk();
  if (chunk == NULL) return none;
  /* What happens past its end, the thread does as another one, of one event. */
  if (!trace_thread.begun || trace_thread.ended) begin_thread();
  chunk->thread = trace_thread.thread;
  chunk->number = trace_thread.number++;
  trace_thread.events = trace_events(header, (uint32_t)(chunk - trace_chunks(header)));
  return (struct trace_room){chunk, trace_thread.events};
}

HAK_COLD struct trace_room trace_take_slow(unsigned count) {
  struct trace_chunk *old = trace_thread.chunk;
  if (old == &trace_in_hand) { /* a signal handler, or the layer's own doing */
    if (header != NULL && !trace_thread.calls_out) atomic_fetch_add(&header->lost, count);
    return (struct trace_room){NULL, NULL};
  }
  int saved = errno;
  trace_thread.chunk = &trace_in_hand;
  struct trace_room room = take(old);
  if (room.events == NULL) {
    trace_thread.chunk = &trace_no_chunk;
    if (trace_is_on()) atomic_fetch_add(&header->lost, count);
  }
  errno = saved;
  return room;
}

/* --- threads' ends --------------------------------------------------------------------------------------------- */

HAK_COLD void trace_leave(struct trace_room room) {
  uint32_t used = atomic_load_explicit(&room.chunk->count, memory_order_relaxed);
  trace_write(&trace_thread.events[used], trace_now(), NULL, 0, TRACE_THREAD_END);
  atomic_store_explicit(&room.chunk->count, used + 1, memory_order_release);
  hand_over(room.chunk);
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
