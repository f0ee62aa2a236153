/* trace_record.c - see trace_record.h. The recorder is the program's parent: it outlives the program, and the
 * program sees by its parent whether it is still recorded. */
#define _GNU_SOURCE
#include "trace_record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "trace_describe.h"
#include "trace_memory.h"

static struct trace_memory memory;
static volatile pid_t child;

/* --- signals ------------------------------------------------------------------------------------------------- */

static void on_child_signal(int number) {
  (void)number;
  int saved = errno;
  trace_memory_notice(&memory);
  errno = saved;
}

static void do_nothing(int number) { (void)number; }

/* A file that grows beyond `ulimit -f`, and a message to a pipe that is closed, are failed writes. A handler, since the
 * program would inherit that the signal is ignored; it does where it was before. */
static void outlive(int number) {
  struct sigaction action;
  if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
    signal(number, do_nothing);
}

/* What is sent to the recorder is meant for the program. What the terminal sends, the program has got itself. */
static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  int saved = errno;
  if (info->si_code <= 0 && child > 0) kill(child, number);
  errno = saved;
}

static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { PASSED_ON = sizeof passed_on / sizeof passed_on[0] };

static void handle_signals(void) {
  struct sigaction action = {.sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_child_signal;
  sigaction(SIGCHLD, &action, NULL);
  action.sa_flags |= SA_SIGINFO;
  action.sa_sigaction = on_signal;
  for (size_t i = 0; i < PASSED_ON; i++) {
    struct sigaction before;
    if (sigaction(passed_on[i], NULL, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    sigaction(passed_on[i], &action, NULL);
  }
}

/* Until the recorder knows the program, and the program is no longer the recorder's copy, none of them may get lost. */
static void hold_signals(sigset_t *before) {
  sigset_t held;
  sigemptyset(&held);
  for (size_t i = 0; i < PASSED_ON; i++) sigaddset(&held, passed_on[i]);
  sigprocmask(SIG_BLOCK, &held, before);
}

/* The recorder's; it may have been started with SIGCHLD held. */
static void release_signals(const sigset_t *before) {
  sigset_t child_ended;
  sigprocmask(SIG_SETMASK, before, NULL);
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_UNBLOCK, &child_ended, NULL);
}

/* The program's: as they were without the recorder. What came meanwhile reaches it now. */
static void restore_signals(const sigset_t *before) {
  for (size_t i = 0; i < PASSED_ON; i++) {
    struct sigaction action;
    if (sigaction(passed_on[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    signal(passed_on[i], SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, before, NULL);
}

/* Ends the way the program ended, without a dump of its own. */
static _Noreturn void end_by(int number) {
  struct rlimit none = {0, 0};
  sigset_t set;
  setrlimit(RLIMIT_CORE, &none);
  signal(number, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  kill(getpid(), number);
  exit(128 + number);
}

/* --- the program ----------------------------------------------------------------------------------------------- */

/* A descriptor that the program inherits, out of the way of those that it opens. */
static int high_descriptor(int file) {
  enum { OUT_OF_THE_WAY = 1000, MARGIN = 16 };
  struct rlimit limit;
  int low = OUT_OF_THE_WAY;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < OUT_OF_THE_WAY + MARGIN)
    low = limit.rlim_cur > 2 * MARGIN ? (int)limit.rlim_cur - MARGIN : 0;
  return fcntl(file, F_DUPFD, low);
}

static _Noreturn void be_program(const struct library *library, const struct program *program,
                                 char **argv, int report, const sigset_t *signals) {
  char value[32];
  restore_signals(signals);
  unsigned char code = EXIT_USAGE;
  int inherited = high_descriptor(memory.file);
  snprintf(value, sizeof value, "%d %d", inherited, (int)getpid());
  if (inherited < 0 || setenv(TRACE_VARIABLE, value, 1) != 0) complain("%s", strerror(errno));
  else if (library_set_preload(library)) code = (unsigned char)program_execute(program, argv);
  if (write(report, &code, 1) != 1) _exit(EXIT_CANNOT_RUN);
  _exit(code);
}

/* 0, or an exit code: what was wrong has been said. */
static int start(const struct library *library, const struct program *program, char **argv) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    complain("%s", strerror(errno));
    return EXIT_CANNOT_RUN;
  }
  fflush(NULL);
  sigset_t signals;
  hold_signals(&signals);
  pid_t pid = fork();
  if (pid == 0) be_program(library, program, argv, ends[1], &signals);
  int error = errno;
  child = pid;
  release_signals(&signals);
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
  return code;
}

static bool has_ended(void) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* What has gathered is written each second, so that a recorder that is killed leaves a trace up to there. */
static void follow(struct trace_file *file) {
  time_t written = 0;
  for (;;) {
    uint32_t seen = atomic_load(&memory.header->wake);
    bool ended = has_ended();
    trace_memory_take(&memory, file, ended);
    if (ended) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec != written) {
      trace_memory_take_gathered(&memory, file);
      written = now.tv_sec;
    }
    trace_memory_wait(&memory, seen);
  }
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

static void say_what_was_recorded(const struct trace_file *file, double seconds) {
  uint64_t lost = atomic_load(&memory.header->lost);
  fprintf(stderr, "hakmem trace record: %s: %llu event%s of %u thread%s, %llu bytes, %.2f s\n",
          file->path, (unsigned long long)memory.events, memory.events == 1 ? "" : "s",
          memory.threads, memory.threads == 1 ? "" : "s", (unsigned long long)file->size, seconds);
  if (memory.images == 0)
    complain("note: the program took no memory from the library that records");
  if (memory.images > 1)
    complain("note: the process executed %u programs one after the other; recorded is the last",
             memory.images);
  uint32_t started = atomic_load(&trace_started(memory.header)->count);
  if (started != 0)
    complain("note: %u process%s started, not recorded", started,
             started == 1 ? " was" : "es were");
  if (memory.failed)
    complain("note: the trace ends before the program did%s%s", file->error != 0 ? ": " : "",
             file->error != 0 ? trace_write_error(file->error) : "");
  if (lost != 0)
    complain("note: %llu event%s missing: of signal handlers, or of more than %d threads at once",
             (unsigned long long)lost, lost == 1 ? " is" : "s are", TRACE_CHUNKS);
}

static bool write_end(struct trace_file *file, const struct trace_times *times, int status) {
  struct trace_totals totals = {
      .events = memory.events,
      .lost = atomic_load(&memory.header->lost),
      .threads = memory.threads,
      .started = atomic_load(&trace_started(memory.header)->count),
      .status = status,
  };
  char *text = trace_describe_end(times, &totals);
  bool written = text != NULL && trace_file_end(file, text);
  free(text);
  return written;
}

int trace_record(const struct library *library, const struct program *program, char **argv,
                 const char *output, bool force) {
  static struct trace_file file;
  struct trace_times times;
  outlive(SIGXFSZ);
  outlive(SIGPIPE);
  enum trace_clock clock = trace_times_start(&times);
  if (!trace_memory_make(&memory, clock, times.ticks_per_second)) return EXIT_USAGE;
  if (!trace_file_open(&file, output, force)) return EXIT_USAGE;
  handle_signals();
  int code = start(library, program, argv);
  if (code != 0) {
    trace_file_discard(&file);
    return code;
  }
  char *text = trace_describe_start(&times, argv, child);
  memory.failed = text == NULL || !trace_file_begin(&file, text);
  free(text);
  follow(&file);
  trace_memory_end(&memory);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  trace_times_end(&times);
  if (!memory.failed) memory.failed = !write_end(&file, &times, code);
  if (close(file.file) != 0 && !memory.failed) {
    file.error = errno;
    complain("%s: cannot write: %s", output, trace_write_error(file.error));
    memory.failed = true;
  }
  say_what_was_recorded(&file, times.seconds);
  if (WIFSIGNALED(status)) end_by(WTERMSIG(status));
  return code == 0 && memory.failed ? 1 : code;
}
