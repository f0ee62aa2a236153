/* join.c - see join.h. */
#define _GNU_SOURCE
#include "join.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "heap/heap.h"
#include "policy/options.h"
#include "process.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct trace_header *trace_header;
uint32_t trace_chunks_mapped;

enum trace_clock trace_clock;
uint64_t trace_ticks_per_second;

static struct trace_common *common; /* also in processes that are only counted */
static struct trace_guard *guard_page;

/* What this process was told. */
static struct {
  int file;     /* the descriptor of the memory, here or in another process */
  int pid;      /* whose it is: of the process to record, or of the recorder, if */
  bool follows; /* all processes are recorded */
} told;

static pid_t own_pid, parent;
static bool forked;

/* How long a thread sleeps before it looks whether the recorder is still there. */
static const struct timespec look_again = {.tv_nsec = 100000000};

/* --- the recorder ------------------------------------------------------------------------------------------ */

/* Of a process that it does not follow it is the parent, of the others as well once theirs have ended. */
bool trace_recorder_is_there(void) {
  if (common == NULL) return false;
  if (trace_header != NULL && atomic_load(&trace_header->ended) != 0) return false;
  if (getppid() == common->recorder) return true;
  return told.follows && atomic_load(&common->ended) == 0 &&
         trace_process_lives(common->recorder, common->recorder_start);
}

void trace_wake_recorder(void) {
  /* Both sequentially consistent: the recorder sets its mark, looks at `wake` and sleeps. */
  atomic_fetch_add(&common->wake, 1);
  if (atomic_load(&common->recorder_sleeps) != 0) trace_wake_all(&common->wake);
}

void trace_wait_for_recorder(uint32_t seen) {
  atomic_store(&trace_header->waiting, 1);
  trace_sleep(&trace_header->given, seen, &look_again);
}

/* --- what it was told ------------------------------------------------------------------------------------------ */

static const char *parse_number(const char *text, int *number) {
  char *end;
  long value = strtol(text, &end, 10);
  if (end == text || value < 0 || value > INT_MAX) return NULL;
  *number = (int)value;
  return end;
}

static bool parse_told(const char *text) {
  int recorder = 0;
  if (text == NULL || (text = parse_number(text, &told.file)) == NULL || *text++ != ' ' ||
      (text = parse_number(text, &told.pid)) == NULL)
    return false;
  told.follows = *text == ' ';
  if (told.follows && (text = parse_number(text + 1, &recorder)) == NULL) return false;
  if (told.follows) told.pid = recorder;
  return *text == 0;
}

static bool is_traces_memory(int file) {
  uint64_t magic;
  return pread(file, &magic, sizeof magic, 0) == sizeof magic && magic == TRACE_MAGIC;
}

/* The descriptor of the process that has it for certain: of a process's own many are closed before it executes a
 * program. */
static int open_memory(void) {
  char path[64];
  if (is_traces_memory(told.file)) return told.file;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", told.pid, told.file);
  int file = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0 || is_traces_memory(file)) return file;
  close(file);
  return -1;
}

/* The descriptor that was inherited stays open: the process may execute another program. */
static void close_memory(int file) {
  if (file >= 0 && file != told.file) close(file);
}

static bool map_common(int file) {
  void *memory =
      mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)TRACE_COMMON_AT);
  if (memory == MAP_FAILED) return false;
  common = memory;
  return true;
}

/* Under a limit of the address space fewer chunks must do. The child of a fork has its parent's place. */
static bool map_region(int file, uint32_t seat) {
  enum { ACCESS = PROT_READ | PROT_WRITE };
  off_t from = (off_t)TRACE_REGION_AT(seat);
  if (trace_header != NULL) {
    void *place = trace_header;
    size_t size = TRACE_BYTES(trace_chunks_mapped);
    if (mmap(place, size, ACCESS, MAP_SHARED | MAP_FIXED, file, from) != MAP_FAILED) return true;
    trace_header = NULL;
    return false;
  }
  for (uint32_t chunks = TRACE_CHUNKS; chunks >= TRACE_FULL_MOST / 2; chunks /= 2) {
    void *memory = mmap(NULL, TRACE_BYTES(chunks), ACCESS, MAP_SHARED, file, from);
    if (memory == MAP_FAILED) continue;
    madvise(memory, TRACE_BYTES(chunks), MADV_DONTDUMP);
    trace_header = memory;
    trace_chunks_mapped = chunks;
    return true;
  }
  return false;
}

/* --- processes that the program starts -------------------------------------------------------------------------- */

/* Counted before the fork: the parent may have ended before the child runs. A fork that fails is counted, too. */
static void before_fork(void) { atomic_fetch_add(&common->started, 1); }

/* True if it was not known before. */
static bool make_known(void) {
  uint32_t pid = (uint32_t)getpid() % TRACE_PIDS;
  uint32_t bit = UINT32_C(1) << pid % TRACE_PIDS_OF_A_WORD;
  return (atomic_fetch_or(&common->known[pid / TRACE_PIDS_OF_A_WORD], bit) & bit) == 0;
}

/* Where a limit of memory forbids it, all stays as it was. */
static void hide(size_t from, size_t to) {
  (void)mmap((char *)trace_header + from, to - from, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* A signal handler may have forked in the middle of a recording, which the child then ends: it writes into empty pages
 * of its own, not into what is its parent's. */
static void after_fork_in_child(void) {
  make_known();
  trace_stop();
  if (trace_header != NULL) {
    hide(0, TRACE_COMMON_AT);
    hide(TRACE_HEADS_AT, TRACE_BYTES(trace_chunks_mapped));
  }
  if (!told.follows) return;
  /* A parent of 0 is in another namespace of pids: what the child is to itself, nobody else knows it by. */
  told.follows = getppid() != 0;
  forked = true;
  parent = own_pid;
  own_pid = getpid();
  if (told.follows) trace_begin_child(guard_page);
}

static bool watch_forks(void) {
  trace_thread.calls_out = true; /* libc may allocate for its list */
  bool watched = pthread_atfork(before_fork, NULL, after_fork_in_child) == 0;
  trace_thread.calls_out = false;
  return watched;
}

/* In a process that the recorded one, or one of its children, has started. */
static void be_counted(int file) {
  if (file < 0) return;
  if (map_common(file)) {
    if (make_known()) atomic_fetch_add(&common->started, 1);
    watch_forks();
  }
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  close(file);
}

/* --- joining ----------------------------------------------------------------------------------------------------- */

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
  guard_page = guard;
  trace_guard = guard;
  return true;
}

/* The helper thread's own allocations are not the program's, and huge pages would hide which pages were touched. */
static void set_options(void) {
  cache_of_thread(); /* reads them */
#if !HAK_FAST
  option_values[OPTION_BACKGROUND] = 0;
  option_values[OPTION_SS_HUGEPAGE] = HUGEPAGE_OFF;
#endif
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

/* The recorder forgets the program that this process was before, if any. */
static bool be_accepted(void) {
  uint32_t image = atomic_fetch_add(&trace_header->image, 1) + 1;
  trace_wake_recorder();
  for (;;) {
    uint32_t seen = atomic_load(&trace_header->given);
    if (atomic_load(&trace_header->accepted) == image) return true;
    if (!trace_recorder_is_there()) return false;
    trace_wait_for_recorder(seen);
  }
}

/* Of the program that this process was before, which keeps its trace. */
static struct trace_seat *own_seat(uint64_t start) {
  for (int i = 0; i < TRACE_SEATS; i++) {
    struct trace_seat *seat = &common->seats[i];
    if (atomic_load(&seat->pid) == own_pid && atomic_load(&seat->asks) != 0 && seat->start == start)
      return seat;
  }
  return NULL;
}

/* The first seat is the first process's for ever. */
static struct trace_seat *take_seat(void) {
  for (int i = 1; i < TRACE_SEATS; i++) {
    int32_t nobody = 0;
    if (atomic_compare_exchange_strong(&common->seats[i].pid, &nobody, own_pid))
      return &common->seats[i];
  }
  return NULL;
}

/* Those of processes that have ended are not free before the recorder has looked. */
static struct trace_seat *wait_for_seat(void) {
  enum { LOOKS = 2 }; /* the first may have begun before the last seat was taken */
  struct trace_seat *seat = take_seat();
  if (seat != NULL) return seat;
  atomic_fetch_add(&common->wanting, 1);
  for (int look = 0; look < LOOKS && seat == NULL; look++) {
    uint32_t seen = atomic_load(&common->looked);
    trace_wake_recorder();
    while (atomic_load(&common->looked) == seen && trace_recorder_is_there())
      trace_sleep(&common->looked, seen, &look_again);
    seat = take_seat();
  }
  atomic_fetch_sub(&common->wanting, 1);
  if (seat == NULL) atomic_fetch_add(&common->refused, 1);
  return seat;
}

/* For a process that is followed. */
static bool sit_down(int file) {
  uint64_t start = trace_process_start(own_pid);
  if (!trace_recorder_is_there()) return false;
  struct trace_seat *seat = forked ? NULL : own_seat(start);
  bool is_new = seat == NULL;
  if (is_new) seat = wait_for_seat();
  if (seat == NULL) return false;
  if (is_new) {
    seat->parent = parent;
    seat->forked = forked;
    seat->start = start;
  }
  if (!map_region(file, (uint32_t)(seat - common->seats))) {
    if (is_new) atomic_store(&seat->pid, 0);
    return false;
  }
  atomic_store_explicit(&seat->asks, 1, memory_order_release);
  return be_accepted();
}

/* Not in a namespace of pids other than the recorder's, which knows processes by theirs. */
static bool follow(int file) {
  own_pid = getpid();
  parent = getppid();
  if (!map_common(file)) return false;
  if (make_known()) atomic_fetch_add(&common->started, 1);
  told.follows = common->pid_namespace != 0 && trace_pid_namespace() == common->pid_namespace;
  if (!told.follows) {
    watch_forks();
    return false;
  }
  if (!make_guard()) return false;
  set_options();
  return sit_down(file);
}

static bool join_once(int file) {
  if (!is_traces_memory(file) || !map_region(file, 0)) return false;
  common = trace_common(trace_header);
  if (!trace_recorder_is_there() || !make_guard()) return false;
  set_options();
  return be_accepted();
}

bool trace_join(void) {
  bool joined;
  if (!forked && !parse_told(os_is_secure() ? NULL : os_env(TRACE_VARIABLE))) return false;
  if (told.follows) {
    int file = open_memory();
    joined = file >= 0 && (forked ? sit_down(file) : follow(file));
    close_memory(file);
  } else if (told.pid != getpid()) {
    be_counted(open_memory());
    return false;
  } else {
    joined = join_once(told.file);
  }
  if (!joined) return false;
  trace_clock = (enum trace_clock)common->clock;
  trace_ticks_per_second = common->ticks_per_second;
  return true;
}
