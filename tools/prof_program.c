/* prof_program.c - hakmem prof -- program: what lives when a program ends.
 *
 * The kernel stops a traced process at its end while its memory is still there (PTRACE_EVENT_EXIT), whatever ends it. So the
 * program is traced, but nothing of it is looked at before, and signals are passed on as they come. Processes that it starts are
 * not traced. One thread is enough: the first. Where that ends before the others, all of them are traced from then on.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "library.h"
#include "prof.h"
#include "program.h"

enum { TRIES = 10, ENDED_MOST = 64, OPTIONS = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC };

struct run {
  const struct prof_order *order;
  struct report report;  /* the last one that was taken */
  struct profile before; /* of VIEW_GROWTH: after so many seconds */
  struct timespec due;
  bool waits; /* for it */
  bool has_report, has_before, tried;
  bool ends, asked; /* at a signal, and written then */
  int code;         /* of the report */
  pid_t pid;
  bool all;    /* threads are traced, not only the first one */
  int status;  /* of waitpid */
  int failure; /* where the child says that it could not start */
  /* The last threads that went on to their ends. */
  pid_t ended[ENDED_MOST];
  unsigned ended_count;
};

/* --- the program -------------------------------------------------------------------------------------------- */

static const int watched[] = {SIGINT, SIGCHLD, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static void watched_set(sigset_t *set) {
  sigemptyset(set);
  for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) sigaddset(set, watched[i]);
}

static _Noreturn void be_program(const struct program *program, char **argv, const int ends[2][2],
                                 const sigset_t *signals, const struct sigaction *child_signal) {
  char go;
  close(ends[0][1]);
  /* Until it is traced; a parent that has gone lets it go, too. */
  while (read(ends[0][0], &go, 1) < 0 && errno == EINTR) continue;
  sigaction(SIGCHLD, child_signal, NULL);
  sigprocmask(SIG_SETMASK, signals, NULL);
  unsigned char code = (unsigned char)program_execute(program, argv);
  if (write(ends[1][1], &code, 1) != 1) _exit(EXIT_CANNOT_RUN);
  _exit(code);
}

/* 0, or an exit code after a complaint. */
static int start(struct run *run, const struct program *program, char **argv) {
  int ends[2][2]; /* go; the code of what went wrong */
  sigset_t before, held;
  struct sigaction child_before, child_default = {.sa_handler = SIG_DFL};
  if (pipe2(ends[0], O_CLOEXEC) != 0 || pipe2(ends[1], O_CLOEXEC) != 0) {
    complain("%s", strerror(errno));
    return EXIT_USAGE;
  }
  watched_set(&held);
  sigaction(SIGCHLD, &child_default, &child_before);
  sigprocmask(SIG_BLOCK, &held, &before);
  fflush(NULL);
  run->pid = fork();
  if (run->pid == 0) be_program(program, argv, (const int(*)[2])ends, &before, &child_before);
  int error = errno;
  fill_standard_descriptors();
  close(ends[0][0]);
  close(ends[1][1]);
  run->failure = ends[1][0];
  if (run->pid < 0) {
    complain("cannot start a process: %s", strerror(error));
    return EXIT_USAGE;
  }
  if (ptrace(PTRACE_SEIZE, run->pid, 0, OPTIONS) != 0) {
    error = errno;
    kill(run->pid, SIGKILL);
    waitpid(run->pid, NULL, 0);
    complain("may not trace the program, to read it when it ends (%s): kernel.yama.ptrace_scope is "
             "2 or more, or a "
             "filter of system calls forbids it; start it by hakmem run, and call hakmem prof PID "
             "as root",
             strerror(error));
    return EXIT_CANNOT_RUN;
  }
  close(ends[0][1]);
  return 0;
}

/* --- reports ------------------------------------------------------------------------------------------------- */

/* Opened anew each time: the process may have become another program. By a thread that stands still at its end, where there is one:
 * others may have no memory any more. False after a complaint. */
static bool read_it(pid_t thread, struct remote *remote, struct profile *profile) {
  char number[16];
  snprintf(number, sizeof number, "%d", thread);
  return remote_open(remote, number) == 0 && profile_read(profile, remote) == 0;
}

static void take(struct run *run, pid_t thread) {
  struct remote *remote = calloc(1, sizeof *remote);
  struct profile profile = {0};
  prof_forget(&run->report);
  run->tried = true;
  run->code = 1;
  if (remote != NULL && read_it(thread, remote, &profile)) {
    if (run->has_before) profile_subtract(&profile, &run->before);
    if (run->order->view == VIEW_PEAK) profile_at_peak(&profile);
    run->code = prof_take(&run->report, run->order, remote, &profile);
  }
  run->has_report = run->code == 0;
  profile_free(&profile);
  free(remote);
}

static void take_before(struct run *run) {
  struct remote *remote = calloc(1, sizeof *remote);
  if (remote != NULL) run->has_before = read_it(run->pid, remote, &run->before);
  free(remote);
}

static void write_it(struct run *run) {
  if (run->has_report) run->code = prof_write(&run->report);
  fflush(stdout);
}

/* --- what happens to it --------------------------------------------------------------------------------------- */

static void forget_ended(struct run *run) {
  run->ended_count = 0;
  memset(run->ended, 0, sizeof run->ended);
}

/* Is it about to end, or has it? */
static bool is_ending(const struct run *run, pid_t thread) {
  char path[64], line[128];
  for (unsigned i = 0; i < ENDED_MOST; i++)
    if (run->ended[i] == thread) return true;
  snprintf(path, sizeof path, "/proc/%d/status", thread);
  FILE *file = fopen(path, "re");
  if (file == NULL) return true;
  bool ending = false;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "State:", 6) == 0) ending |= strpbrk(line, "ZX") != NULL;
    if (strncmp(line, "SigPnd:", 7) == 0)
      ending |= strtoull(line + 7, NULL, 16) >> (SIGKILL - 1) & 1;
  }
  fclose(file);
  return ending;
}

/* Another thread than `but` that lives, 0: none. With `trace`, all of them are traced. */
static pid_t find_threads(const struct run *run, pid_t but, bool trace) {
  char path[64];
  pid_t found = 0;
  snprintf(path, sizeof path, "/proc/%d/task", run->pid);
  DIR *directory = opendir(path);
  if (directory == NULL) return 0;
  for (struct dirent *entry; (found == 0 || trace) && (entry = readdir(directory)) != NULL;) {
    pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
    if (thread <= 0 || thread == but) continue;
    if (trace) ptrace(PTRACE_SEIZE, thread, 0, OPTIONS | PTRACE_O_TRACECLONE);
    else if (!is_ending(run, thread)) found = thread;
  }
  closedir(directory);
  return found;
}

/* By itself, as pthread_exit() does; not by exit(), a signal, or another one that executes a program. */
static bool ends_by_itself(pid_t thread) {
  char path[64];
  long call = -1;
  snprintf(path, sizeof path, "/proc/%d/syscall", thread);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  if (fscanf(file, "%ld", &call) != 1) call = -1;
  fclose(file);
  return call == SYS_exit;
}

static bool is_ours(const struct run *run, pid_t thread) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d", run->pid, thread);
  return access(path, F_OK) == 0;
}

/* What stands still at the end of a thread goes on when the process ends, so there is time to look at it only where that has begun.
 * Others are traced after this one went on: one that executes a program waits for the others to end, and nobody can be traced
 * meanwhile; it has the first one's number then. */
static void on_exit_of_thread(struct run *run, pid_t thread) {
  bool ours = is_ours(run, thread), by_itself = ends_by_itself(thread);
  pid_t other = find_threads(run, thread, false);
  bool last = ours && !(by_itself && other != 0);
  if (last && !run->asked && !run->ends) take(run, thread);
  run->ends |= last && !by_itself;
  run->ended[run->ended_count++ % ENDED_MOST] = thread;
  ptrace(PTRACE_CONT, thread, 0, 0);
  if (!ours || run->all) return;
  if (!last) {
    run->all = true;
    /* Twice, for those that were started meanwhile. */
    for (int i = 0; i < 2; i++) find_threads(run, thread, true);
    return;
  }
  for (int i = 0; i < TRIES && other != 0; i++) {
    if (ptrace(PTRACE_SEIZE, other, 0, OPTIONS) == 0) {
      run->ends = false;
      break;
    }
    forget_ended(run);
    other = find_threads(run, 0, false);
  }
}

static void growth_begins(struct run *run) {
  run->has_before = false;
  profile_free(&run->before);
  clock_gettime(CLOCK_MONOTONIC, &run->due);
  run->due.tv_sec += run->order->seconds;
  run->waits = run->order->view == VIEW_GROWTH;
}

static void on_stop(struct run *run, pid_t thread, int status) {
  int signal = WSTOPSIG(status), event = status >> 16;
  if (event == PTRACE_EVENT_EXIT) {
    on_exit_of_thread(run, thread);
    return;
  }
  if (event ==
      PTRACE_EVENT_EXEC) { /* the one that did it has the first one's number now, and is the only one */
    run->ends = run->all = false;
    forget_ended(run);
    growth_begins(run);
  }
  bool group = signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
  if (event == PTRACE_EVENT_STOP && group) ptrace(PTRACE_LISTEN, thread, 0, 0);
  else ptrace(PTRACE_CONT, thread, 0, event == 0 ? signal : 0);
}

/* False when it has ended. */
static bool look_after(struct run *run) {
  int status;
  pid_t thread;
  while ((thread = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
    if (WIFSTOPPED(status)) on_stop(run, thread, status);
    else if (thread == run->pid) {
      run->status = status;
      return false;
    }
  }
  return thread == 0 || errno != ECHILD;
}

static bool is_due(const struct run *run) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return run->waits && (now.tv_sec > run->due.tv_sec ||
                        (now.tv_sec == run->due.tv_sec && now.tv_nsec >= run->due.tv_nsec));
}

static void wait_for_end(struct run *run) {
  static const struct timespec often = {.tv_nsec = 100000000}, seldom = {.tv_sec = 3600};
  sigset_t held;
  watched_set(&held);
  growth_begins(run);
  while (look_after(run)) {
    siginfo_t info;
    if (is_due(run)) {
      run->waits = false;
      take_before(run);
    }
    int signal = sigtimedwait(&held, &info, run->waits ? &often : &seldom);
    if (signal == SIGINT && !run->ends) {
      pid_t thread = find_threads(run, 0, false);
      take(run, thread != 0 ? thread : run->pid);
      write_it(run);
      run->asked = true;
    } else if (signal > 0 && signal != SIGCHLD && signal != SIGINT && info.si_code <= 0) {
      kill(run->pid, signal); /* the terminal's own reach the program by themselves */
    }
  }
}

static int end(struct run *run) {
  unsigned char code;
  if (read(run->failure, &code, 1) == 1) return code;
  if (run->order->view == VIEW_GROWTH && !run->has_before && run->has_report)
    complain("note: the program ended within %ld s: all of it has grown", run->order->seconds);
  if (!run->asked && !run->has_report && !run->tried)
    complain("the program's threads ended too fast to be traced");
  if (!run->asked) write_it(run);
  if (WIFSIGNALED(run->status)) {
    prof_close(run->order->output);
    program_end_by(WTERMSIG(run->status));
  }
  code = (unsigned char)WEXITSTATUS(run->status);
  return code == 0 ? run->code : code;
}

int prof_program(const struct prof_order *order, char **argv) {
  static struct library library;
  static struct program program;
  char rate[24];
  struct run run = {.order = order, .code = 1};
  if (!library_find(LIBRARY_RUN, NULL, NULL, &library)) return EXIT_USAGE;
  int code = program_examine(argv, &library, &program);
  if (code == 0) code = program_refuse_own_malloc(&program);
  if (code != 0) return code;
  snprintf(rate, sizeof rate, "%lld", order->rate);
  if (!library_set_preload(&library) ||
      (order->rate >= 0 && setenv("HAKMEM_PROF_RATE", rate, 1) != 0))
    return EXIT_USAGE;
  code = start(&run, &program, argv);
  if (code != 0) return code;
  wait_for_end(&run);
  code = end(&run);
  prof_forget(&run.report);
  profile_free(&run.before);
  return code;
}
