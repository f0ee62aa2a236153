/* trace_record.c - see trace_record.h. The recorder is the program's parent: it outlives the program, and the
 * program sees by its parent whether it is still recorded. */
#define _GNU_SOURCE
#include "trace_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "program.h"
#include "trace_follow.h"
#include "trace_layer/process.h"
#include "trace_signals.h"

static struct trace_common *common;

/* --- the program ----------------------------------------------------------------------------------------------- */

/* A descriptor that the program inherits, out of the way of those that it opens. */
static int high_descriptor(int file) {
  enum { OUT_OF_THE_WAY = 1000, MARGIN = 16 };
  struct rlimit limit;
  int low = OUT_OF_THE_WAY;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < OUT_OF_THE_WAY + MARGIN)
    low = limit.rlim_cur > 2 * MARGIN ? (int)limit.rlim_cur - MARGIN : 0;
  int high = fcntl(file, F_DUPFD_CLOEXEC, low);
  if (high >= 0) close(file);
  return high;
}

/* In the program: what its library will look for. With `follow` it holds for all processes. */
static bool tell_library(int file, bool follow) {
  char value[64];
  uint32_t pid = (uint32_t)getpid();
  int length = snprintf(value, sizeof value, "%d %u", file, pid);
  if (follow) snprintf(value + length, sizeof value - (size_t)length, " %d", (int)getppid());
  if (follow) { /* it is no process that the program has started */
    struct trace_seat *seat = &common->seats[0];
    atomic_fetch_or(&common->known[pid % TRACE_PIDS / TRACE_PIDS_OF_A_WORD],
                    UINT32_C(1) << pid % TRACE_PIDS_OF_A_WORD);
    seat->start = trace_process_start((int)pid);
    atomic_store(&seat->pid, (int32_t)pid);
    atomic_store(&seat->asks, 1);
  }
  return fcntl(file, F_SETFD, 0) == 0 && setenv(TRACE_VARIABLE, value, 1) == 0;
}

struct start {
  const struct trace_order *order;
  int file;      /* the memory */
  int report;    /* for an exit code */
  sigset_t held; /* signals, before */
};

static _Noreturn void be_program(const struct start *start) {
  const struct trace_order *order = start->order;
  trace_signals_restore(&start->held);
  unsigned char code = EXIT_USAGE;
  if (!tell_library(start->file, order->follow)) complain("%s", strerror(errno));
  else if (library_set_preload(order->library))
    code = (unsigned char)program_execute(order->program, order->argv);
  if (write(start->report, &code, 1) != 1) _exit(EXIT_CANNOT_RUN);
  _exit(code);
}

/* 0, or an exit code: what was wrong has been said. */
static int start_program(const struct trace_order *order, int file, pid_t *child) {
  struct start start = {.order = order, .file = file};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    complain("%s", strerror(errno));
    return EXIT_CANNOT_RUN;
  }
  start.report = ends[1];
  fflush(NULL);
  trace_signals_hold(&start.held);
  pid_t pid = fork();
  if (pid == 0) be_program(&start);
  int error = errno;
  trace_signals.child = pid;
  trace_signals_release(&start.held);
  close(ends[1]);
  unsigned char code = EXIT_CANNOT_RUN;
  if (pid < 0) {
    complain("cannot start a process: %s", strerror(error));
  } else {
    ssize_t got;
    while ((got = read(ends[0], &code, 1)) < 0 && errno == EINTR) continue;
    if (got == 0) code = 0; /* closed by the execution of the program */
  }
  close(ends[0]);
  *child = pid;
  return code;
}

static bool has_ended(pid_t pid) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* What has gathered is written each second, so that a recorder that is killed leaves a trace up to there. Returns the
 * program's status, of waitpid. */
static int record_it(struct recorded *process) {
  static const struct timespec most = {.tv_sec = 1};
  time_t written = 0;
  for (;;) {
    uint32_t seen = atomic_load(&common->wake);
    bool ended = has_ended(process->pid);
    recorded_take(process, ended);
    if (ended) break;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec != written) {
      trace_memory_take_gathered(process->memory, &process->file);
      written = now.tv_sec;
    }
    trace_memory_wait(common, seen, &most);
  }
  int status = 0;
  trace_memory_end(process->memory);
  while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) continue;
  process->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  recorded_end(process, (int64_t)atomic_load(&common->started));
  return status;
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

static void say_of_program(const struct recorded *process) {
  if (process->images == 0)
    complain("note: the program took no memory from the library that records");
  if (process->images > 1)
    complain("note: the process executed %u programs one after the other; recorded is the last",
             process->images);
}

static void say(const struct recorded *process) {
  recorded_say(process, false);
  say_of_program(process);
  uint32_t started = atomic_load(&common->started);
  if (started != 0)
    complain("note: %u process%s started, not recorded", started,
             started == 1 ? " was" : "es were");
  recorded_say_what_is_missing(process, false);
}

/* What the path ends with that /proc shows for the library. */
static const char *mapped_name(const struct library *library) {
  const char *path = realpath(library->path, NULL);
  if (path == NULL) path = library->path;
  return strrchr(path, '/') + 1; /* both are absolute */
}

/* Returns the program's status, of waitpid. */
static int record_all(struct recorded *process, const struct trace_order *order, int file,
                      bool *failed) {
  struct follow follow = {
      .output = order->output,
      .library = mapped_name(order->library),
      .file = file,
      .common = common,
      .first = process,
      .last = process,
      .seats = {process},
  };
  follow_processes(&follow);
  follow_say(&follow);
  say_of_program(process);
  *failed = follow.any_failed;
  return follow.wait_status;
}

/* Complains and returns -1 when there is no memory for it. Processes whose parents have ended become the recorder's. */
static int make_memory(const struct trace_order *order, const struct trace_times *times) {
  int file = trace_memory_make(&common, order->follow ? TRACE_SEATS : 1);
  if (file < 0) return -1;
  common->clock = times->clock;
  common->ticks_per_second = times->ticks_per_second;
  common->recorder = getpid();
  common->recorder_start = trace_process_start((int)getpid());
  common->pid_namespace = trace_pid_namespace();
  if (order->follow) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  int high = high_descriptor(file);
  if (high < 0) complain("%s", strerror(errno));
  return high;
}

int trace_record(const struct trace_order *order) {
  struct trace_times times;
  trace_signals_outlive();
  trace_times_start(&times);
  int file = make_memory(order, &times);
  if (file < 0) return EXIT_USAGE;
  struct recorded *process = recorded_make(file, 0);
  if (process == NULL) {
    complain("%s", strerror(errno));
    return EXIT_USAGE;
  }
  if (!trace_file_open(&process->file, order->output, order->force)) return EXIT_USAGE;
  process->times = times;
  process->is_first = true;
  trace_signals_handle(common);
  int code = start_program(order, file, &process->pid);
  if (code != 0) {
    trace_file_discard(&process->file);
    return code;
  }
  recorded_begin(process, order->argv);
  bool failed = false;
  int status = order->follow ? record_all(process, order, file, &failed) : record_it(process);
  if (!order->follow) say(process);
  if (WIFSIGNALED(status)) program_end_by(WTERMSIG(status));
  code = WEXITSTATUS(status);
  return code == 0 && (failed || process->failed) ? 1 : code;
}
