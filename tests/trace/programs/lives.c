/* lives.c - programs that fork, execute others, end in odd ways or allocate in signal handlers. Sizes tell the test
 * which events are whose. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "program.h"

static char *own_path;

static void allocate(size_t size, int count) {
  for (int i = 0; i < count; i++) free(malloc(size));
}

static void wait_for(pid_t pid) {
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) _exit(98);
}

static _Noreturn void become(char *what) {
  char *arguments[] = {own_path, what, NULL};
  execv(own_path, arguments);
  _exit(97);
}

/* The last events before the end are those that a buffer of the program's own would lose. */
static void killed(char *number, char *count) {
  allocate(3000, atoi(count));
  void *last = malloc(3001);
  say("%d\n", last != NULL);
  raise(atoi(number));
}

static void forks(void) {
  void *before = malloc(3000);
  pid_t pid = fork();
  if (pid == 0) {
    free(before);
    allocate(3001, 5000);
    _exit(0);
  }
  wait_for(pid);
  free(malloc(3002));
  free(before);
}

/* Where of the memory between program and recorder a process shares what it writes; "" ends the list. */
static void say_what_is_shared(void) {
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) _exit(94);
  while (fgets(line, sizeof line, maps) != NULL)
    if (strstr(line, "memfd:hakmem-trace") != NULL && strstr(line, "rw-s") != NULL) say("%s", line);
  fclose(maps);
}

static void shares(void) {
  allocate(3000, 1);
  pid_t pid = fork();
  if (pid == 0) {
    say_what_is_shared();
    _exit(0);
  }
  wait_for(pid);
}

/* A daemon: the process that was started ends at once, its child's child lives longer. */
static void daemonizes(void) {
  allocate(3000, 1);
  if (fork() != 0) _exit(0);
  if (setsid() < 0 || fork() != 0) _exit(0);
  allocate(3001, 1);
  _exit(0);
}

static void starts(void) {
  allocate(3000, 1);
  pid_t pid = fork();
  if (pid == 0) become((char[]){"after"});
  wait_for(pid);
  allocate(3002, 1);
}

/* Without flushing or running what runs at exit. */
static void executes(void) {
  allocate(3000, 10000);
  become((char[]){"after"});
}

static void allocate_in_handler(int number) {
  (void)number;
  free(malloc(3001));
}

/* A handler that interrupted malloc itself must not call it; so they wait until main is elsewhere. */

static void handles(void) {
  signal(SIGUSR1, allocate_in_handler);
  for (int i = 0; i < 10000; i++) {
    free(realloc(malloc(100), 3000));
    if (i % 10 == 0) raise(SIGUSR1);
  }
}

static void frees_nonsense(void) {
  volatile uintptr_t address = (uintptr_t)0xFEDCBA9876543210;
  allocate(3000, 10);
  free((void *)address);
}

/* Twice 400,000 events; between them it waits for a line. */
static void waits(void) {
  char line;
  allocate(3000, 200000);
  say("ready\n");
  if (read(STDIN_FILENO, &line, 1) != 1) _exit(96);
  allocate(3001, 200000);
  say("done\n");
}

/* So few that no chunk is ever full. */
static void few(void) {
  char line;
  allocate(3000, 3);
  say("ready\n");
  if (read(STDIN_FILENO, &line, 1) != 1) _exit(96);
  allocate(3001, 3);
  say("done\n");
}

static void end_with_seven(int number) {
  (void)number;
  _exit(7);
}

static void pauses(void) {
  signal(SIGTERM, end_with_seven);
  allocate(3000, 1);
  say("ready\n");
  for (;;) pause();
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const char *what = argv[1];
  own_path = argv[0];
  if (strcmp(what, "killed") == 0 && argc == 4) killed(argv[2], argv[3]);
  else if (strcmp(what, "forks") == 0) forks();
  else if (strcmp(what, "starts") == 0) starts();
  else if (strcmp(what, "executes") == 0) executes();
  else if (strcmp(what, "after") == 0) allocate(3005, 3);
  else if (strcmp(what, "handles") == 0) handles();
  else if (strcmp(what, "nonsense") == 0) frees_nonsense();
  else if (strcmp(what, "waits") == 0) waits();
  else if (strcmp(what, "few") == 0) few();
  else if (strcmp(what, "shares") == 0) shares();
  else if (strcmp(what, "daemonizes") == 0) daemonizes();
  else if (strcmp(what, "pauses") == 0) pauses();
  else return atoi(what);
  return 0;
}
