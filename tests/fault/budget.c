/* What a process costs on the library, counted from outside: peak resident memory, page faults,
 * system calls. Counts, not times.
 *
 * This program is linked statically and does next to nothing before it forks, because the kernel
 * counts a child's peak from the fork on, not from the exec.
 *
 * usage: budget start <library> <empty library>    /bin/true with the one and the other preloaded
 *        budget first <library> <program>          one that allocates a little
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

#define START_RUNS 40
#ifndef START_MORE_KB /* the code that runs at load is in one segment with the rest (docs/decisions/0027) */
#define START_MORE_KB 100
#define START_MORE_CALLS 4
#endif
#define FIRST_RUNS 8
/* 80; 188 to 236 where the code and the variables lie as they come (docs/decisions/0041). */
#define FIRST_KB 100
/* 193 without samples, 201 to 205 with them: each of their tables takes a page or two. Some 15 more since the rules of stacks take eight pages
 * and block sizes come from tables (docs/decisions/0041). */
#define STEADY_FAULTS 226
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

/* What the process has in memory now of one file, NULL: of all, in KB. Its pages are walked for it: the kernel's own sums, and the peak
 * that it reports at the end, may be wrong by 40 pages for each processor. */
static long resident_kb(pid_t process, const char *file_name) {
  char path[64], line[4096];
  long sum = -1, kb;
  snprintf(path, sizeof path, "/proc/%d/%s", (int)process,
           file_name != NULL ? "smaps" : "smaps_rollup");
  FILE *file = fopen(path, "r");
  int of_it = file_name == NULL;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    /* A mapping's first line begins with its address, the others with a word in capitals. */
    if (file_name != NULL && line[0] >= '0' && (line[0] <= '9' || line[0] >= 'a'))
      of_it = strstr(line, file_name) != NULL;
    else if (of_it && sscanf(line, "Rss: %ld", &kb) == 1) sum = sum < 0 ? kb : sum + kb;
  }
  if (file != NULL) fclose(file);
  return sum;
}

struct cost {
  int calls; /* from exec to exit; -1 when tracing is not allowed here */
  long peak_kb;
};

/* Of a program, looked at before and after each of its system calls; memory of one file, or of all. */
static struct cost cost_of(const char *library, const char *program, const char *file) {
  struct cost cost = {-1, -1};
  pid_t child = fork();
  if (child == 0) run(program, library, 1);
  int status;
  if (waitpid(child, &status, 0) != child) fail("waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 125) return cost;
  /* Stopped after exec. From here each call stops the child twice, exit once. */
  if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(long)PTRACE_O_TRACESYSGOOD) != 0)
    fail("ptrace");
  int stops = 0;
  while (WIFSTOPPED(status)) {
    long now_kb = resident_kb(child, file);
    if (now_kb > cost.peak_kb) cost.peak_kb = now_kb;
    if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child)
      fail("ptrace");
    if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)) ++stops;
  }
  if (status != 0) fail("a program under ptrace");
  cost.calls = (stops + 1) / 2;
  return cost;
}

/* How much of a library the kernel maps at once depends on where it happens to lie: the least of several runs. */
static struct cost least_cost_of(const char *library, const char *program, const char *file,
                                 int runs) {
  struct cost least = cost_of(library, program, file);
  for (int i = 1; i < runs && least.calls >= 0; i++) {
    struct cost cost = cost_of(library, program, file);
    if (cost.peak_kb < least.peak_kb) least = cost;
  }
  return least;
}

static int start(const char *library, const char *empty) {
  struct cost without = least_cost_of(empty, "/bin/true", NULL, START_RUNS);
  struct cost with = least_cost_of(library, "/bin/true", NULL, START_RUNS);
  if (without.calls < 0) {
    puts("skipped: a program may not be traced here");
    return 77;
  }
  long more_kb = with.peak_kb - without.peak_kb;
  int more_calls = with.calls - without.calls, bad = 0;
  printf("/bin/true, empty library preloaded: %ld KB at peak, %d system calls\n", without.peak_kb,
         without.calls);
  printf(
      "/bin/true, %s preloaded: %ld KB (%+ld, at most +%d), %d system calls (%+d, at most +%d)\n",
      library, with.peak_kb, more_kb, START_MORE_KB, with.calls, more_calls, START_MORE_CALLS);
  if (with.peak_kb <= 0 || more_kb > START_MORE_KB)
    bad = puts("FAILED: too much resident memory at start");
  if (more_calls > START_MORE_CALLS)
    bad = puts("FAILED: too many system calls at start (see: strace -E LD_PRELOAD=... /bin/true)");
  return bad ? 1 : 0;
}

/* Of the library's file alone: what lies elsewhere changes by more than that from run to run. */
static int first(const char *library, const char *program) {
  struct cost least = least_cost_of(library, program, library, FIRST_RUNS);
  if (least.calls < 0) {
    puts("skipped: a program may not be traced here");
    return 77;
  }
  printf("%s: %ld KB of %s in memory (at most %d)\n", program, least.peak_kb, library, FIRST_KB);
  if (least.peak_kb > 0 && least.peak_kb <= FIRST_KB) return 0;
  puts("FAILED: too much of it for a program's first blocks (scripts/list_functions.py)");
  return 1;
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
  if (argc == 4 && strcmp(argv[1], "first") == 0) return first(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "steady") == 0) return steady(argv[2], argv[3]);
  fprintf(stderr, "usage: budget start <library> <empty library> | first <library> <program> | "
                  "steady <library> <program>\n");
  return 2;
}
