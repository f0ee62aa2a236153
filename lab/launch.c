/* launch.c - runs one command and writes what it used as one line of JSON to a file descriptor.
 *
 *   launch --report FD [--preload LIBRARY] [--cpus 0,1] [--timeout SECONDS] [--warm MIB] -- COMMAND ARGUMENT...
 *
 * Why a program of its own: the kernel counts towards the peak memory of a process what it held
 * before exec, that is, a copy of whoever started it. Started from Python, every command would
 * "use" at least Python's 60 MB. This one is static and stays below any program it starts.
 *
 * The preload is set in the child alone, so that nothing on the way to the command runs on it. The
 * command gets a process group of its own: what it leaves behind is killed when it ends, and all of
 * it on a time-out or when this program is told to stop. Processes that left the group, as daemons
 * do, become children of this program when their parents end, and are killed with the rest.
 *
 * --warm: so much memory is touched and given back just before. In a virtual machine, pages that nobody has
 * used for some seconds may be with the host, and come back 20 times slower than others: whoever happens to
 * touch them first would pay for it.
 *
 * Exit status: 0 when there is a report, whatever became of the command; 2 for a wrong use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct request {
  int report;          /* file descriptor */
  const char *preload; /* NULL: none */
  int pinned;
  cpu_set_t cpus;
  double timeout; /* seconds; 0: none */
  size_t warm;    /* bytes */
  char **command;
};

static void refuse(const char *what, const char *value) {
  fprintf(stderr, "launch: %s%s\n", what, value);
  exit(2);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval time) {
  return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

static void parse_cpus(const char *text, struct request *request) {
  CPU_ZERO(&request->cpus);
  for (const char *at = text;;) {
    char *end;
    unsigned long cpu = strtoul(at, &end, 10);
    if (*at < '0' || *at > '9' || cpu >= CPU_SETSIZE || (*end != ',' && *end != 0))
      refuse("--cpus: accepted is a list as 0,1; not ", text);
    CPU_SET(cpu, &request->cpus);
    if (*end == 0) break;
    at = end + 1;
  }
  request->pinned = 1;
}

static double parse_number(const char *what, const char *text) {
  char *end;
  double value = strtod(text, &end);
  if (*text < '0' || *text > '9' || *end != 0) refuse(what, text);
  return value;
}

static struct request parse(int count, char **words) {
  struct request request = {.report = -1};
  int at = 1;
  for (; at < count && strcmp(words[at], "--") != 0; at += 2) {
    const char *value = at + 1 < count ? words[at + 1] : NULL;
    if (value == NULL) refuse("no value after ", words[at]);
    if (strcmp(words[at], "--report") == 0)
      request.report = (int)parse_number("--report: not a file descriptor: ", value);
    else if (strcmp(words[at], "--preload") == 0) request.preload = value;
    else if (strcmp(words[at], "--cpus") == 0) parse_cpus(value, &request);
    else if (strcmp(words[at], "--timeout") == 0)
      request.timeout = parse_number("--timeout: not a number of seconds: ", value);
    else if (strcmp(words[at], "--warm") == 0)
      request.warm = (size_t)(parse_number("--warm: not a number of MiB: ", value) * 1048576);
    else refuse("unknown option ", words[at]);
  }
  if (request.report < 0 || at + 1 >= count)
    refuse("usage: launch --report FD [--preload LIBRARY] [--cpus 0,1] [--timeout SECONDS] "
           "[--warm MIB] -- COMMAND ARGUMENT...",
           "");
  request.command = words + at + 1;
  return request;
}

/* Not in a child: what a process has held counts towards the peak of none but itself. */
static void warm_memory(size_t bytes) {
  if (bytes == 0) return;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return; /* as well as can be */
  madvise(memory, bytes, MADV_HUGEPAGE);
  for (size_t i = 0; i < bytes; i += 4096) ((volatile char *)memory)[i] = 1;
  munmap(memory, bytes);
}

/* In the child. What fails is told through `tell`: its number of 'errno', then what it was. */
static void become(const struct request *request, const sigset_t *mask, int tell) {
  int failed = 0;
  const char *what = "run it";
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (request->preload != NULL && request->preload[0] != 0)
    setenv("LD_PRELOAD", request->preload, 1);
  else unsetenv("LD_PRELOAD");
  if (request->pinned && sched_setaffinity(0, sizeof request->cpus, &request->cpus) != 0) {
    failed = errno;
    what = "pin it to these CPUs";
  }
  close(request->report);
  sigprocmask(SIG_SETMASK, mask, NULL);
  if (failed == 0) {
    execvp(request->command[0], request->command);
    failed = errno;
  }
  dprintf(tell, "cannot %s: %s", what, strerror(failed));
  _exit(127);
}

/* Kills what became a child of this process, and what becomes one by that. */
static void end_children(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  for (int found = 1; found;) {
    found = 0;
    FILE *children = fopen(path, "r");
    if (children == NULL) return; /* a kernel without that file */
    for (int child; fscanf(children, "%d", &child) == 1; found = 1) kill(child, SIGKILL);
    fclose(children);
    while (found && waitpid(-1, NULL, WNOHANG) > 0) continue;
    if (found) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

/* Waits until `child` has ended but leaves it to be reaped: its number, and with it its group's,
 * stays taken so long. Returns 1 when it was killed because its time was up. */
static int wait_for(pid_t child, const struct request *request, const sigset_t *signals,
                    double start) {
  int timed_out = 0;
  for (;;) {
    siginfo_t ended = {0};
    if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
      return timed_out;
    double left =
        request->timeout > 0 && !timed_out ? start + request->timeout - seconds_now() : 3600;
    if (left <= 0) {
      timed_out = 1;
      kill(-child, SIGKILL);
      continue;
    }
    struct timespec wait = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    int signal = sigtimedwait(signals, NULL, &wait);
    if (signal > 0 && signal != SIGCHLD) { /* told to stop: take the command along */
      kill(-child, SIGKILL);
      end_children();
      _exit(128 + signal);
    }
  }
}

int main(int count, char **words) {
  struct request request = parse(count, words);
  if (fcntl(request.report, F_GETFD) < 0) refuse("--report: not an open file descriptor", "");
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_BLOCK, &signals, &before);
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* whoever started it is gone: nobody waits for the report */
  int tell[2];
  if (pipe2(tell, O_CLOEXEC) != 0) refuse("no pipe: ", strerror(errno));

  prctl(PR_SET_CHILD_SUBREAPER, 1);
  warm_memory(request.warm);
  double start = seconds_now();
  pid_t child = fork();
  if (child < 0) refuse("cannot fork: ", strerror(errno));
  if (child == 0) become(&request, &before, tell[1]);
  setpgid(child, child); /* here too: whichever of the two comes first */
  close(tell[1]);
  int timed_out = wait_for(child, &request, &signals, start);
  double wall = seconds_now() - start;

  kill(-child, SIGKILL); /* what it left running would disturb the next run */
  int status;
  struct rusage used;
  if (wait4(child, &status, 0, &used) != child) refuse("wait4: ", strerror(errno));
  end_children();
  char problem[256];
  ssize_t length = read(tell[0], problem, sizeof problem - 1);
  problem[length > 0 ? length : 0] = 0;
  dprintf(request.report,
          "{\"wall_s\": %.6f, \"user_s\": %.6f, \"system_s\": %.6f, \"peak_rss_kb\": %ld, "
          "\"minor_faults\": %ld, \"major_faults\": %ld, \"voluntary_switches\": %ld, "
          "\"involuntary_switches\": %ld, \"exit_code\": %d, \"signal\": %d, "
          "\"timed_out\": %s, \"not_started\": \"%s\"}\n",
          wall, seconds_of(used.ru_utime), seconds_of(used.ru_stime), used.ru_maxrss,
          used.ru_minflt, used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw,
          WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          timed_out ? "true" : "false", problem);
  return 0;
}
