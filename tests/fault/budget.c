/* What a process costs on the library, counted from outside: peak resident memory, page faults,
 * system calls. Counts, not times.
 *
 * This program is linked statically and does next to nothing before it forks, because the kernel
 * counts a child's peak from the fork on, not from the exec.
 *
 * usage: budget start <library> <empty library>    /bin/true with the one and the other preloaded
 *        budget steady <library> <program>         a program that is to stay small */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_RUNS 60
/* 56 to 116 were seen: how much of a small library the kernel maps at once depends on how its file lies in the page cache. */
#define START_MORE_KB 130
#define START_MORE_CALLS 4
#define STEADY_FAULTS                                                                              \
  225 /* 191 without samples, 207 to 212 with them: each of their tables takes a page or two */
#define STEADY_KB 2560 /* 2.5 MB */

static void fail(const char *what) {
  fprintf(stderr, "FAILED: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* In the child: the program, with nothing in its environment but the library. */
static void run(const char *program, const char *library, int traced) {
  static char preload[4096], name[4096];
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
  snprintf(name, sizeof name, "%s", program);
  char *environment[] = {preload, NULL};
  char *arguments[] = {name, NULL};
  if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(125);
  execve(program, arguments, environment);
  _exit(126);
}

static struct rusage usage_of(const char *program, const char *library) {
  pid_t child = fork();
  if (child == 0) run(program, library, 0);
  int status;
  struct rusage usage;
  if (wait4(child, &status, 0, &usage) != child || status != 0) fail(program);
  return usage;
}

/* Least peak resident memory of START_RUNS runs, in KB. */
static long peak_kb(const char *library) {
  long least = 0;
  for (int i = 0; i < START_RUNS; ++i) {
    long peak = usage_of("/bin/true", library).ru_maxrss;
    if (least == 0 || peak < least) least = peak;
  }
  return least;
}

/* System calls from exec to exit; -1 when tracing is not allowed here. */
static int calls(const char *library) {
  pid_t child = fork();
  if (child == 0) run("/bin/true", library, 1);
  int status;
  if (waitpid(child, &status, 0) != child) fail("waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 125) return -1;
  /* Stopped after exec. From here each call stops the child twice, exit once. */
  if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(long)PTRACE_O_TRACESYSGOOD) != 0)
    fail("ptrace");
  int stops = 0;
  while (WIFSTOPPED(status)) {
    if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child)
      fail("ptrace");
    if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)) ++stops;
  }
  if (status != 0) fail("/bin/true under ptrace");
  return (stops + 1) / 2;
}

static int start(const char *library, const char *empty) {
  long empty_kb = peak_kb(empty);
  long library_kb = peak_kb(library);
  int empty_calls = calls(empty);
  int library_calls = calls(library);
  printf("/bin/true, empty library preloaded: %ld KB at peak, %d system calls\n", empty_kb,
         empty_calls);
  printf(
      "/bin/true, %s preloaded: %ld KB (%+ld, at most +%d), %d system calls (%+d, at most +%d)\n",
      library, library_kb, library_kb - empty_kb, START_MORE_KB, library_calls,
      library_calls - empty_calls, START_MORE_CALLS);
  int bad = 0;
  if (library_kb - empty_kb > START_MORE_KB)
    bad = puts("FAILED: too much resident memory at start");
  if (empty_calls < 0) puts("system calls not counted: ptrace is not allowed here");
  else if (library_calls - empty_calls > START_MORE_CALLS)
    bad = puts("FAILED: too many system calls at start (see: strace -E LD_PRELOAD=... /bin/true)");
  return bad ? 1 : 0;
}

static int steady(const char *library, const char *program) {
  struct rusage usage = usage_of(program, library);
  printf("%ld page faults (at most %d), %ld KB at peak (at most %d)\n", usage.ru_minflt,
         STEADY_FAULTS - 1, usage.ru_maxrss, STEADY_KB - 1);
  int bad = 0;
  if (usage.ru_minflt >= STEADY_FAULTS) bad = puts("FAILED: too many page faults");
  if (usage.ru_maxrss >= STEADY_KB) bad = puts("FAILED: too much resident memory");
  return bad ? 1 : 0;
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc == 4 && strcmp(argv[1], "start") == 0) return start(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "steady") == 0) return steady(argv[2], argv[3]);
  fprintf(stderr, "usage: budget start <library> <empty library> | steady <library> <program>\n");
  return 2;
}
