/* stats_file_target.c - allocates, does what it is told, and ends; stats_file.py looks at what was written.
 *
 * usage: stats_file_target ACTION... with
 *   chdir DIR    forget (overwrites and clears the environment)    fork (a child that exits, too)
 *   raise N (sends itself signal N)    ignore N    handle N (handlers of its own)    _exit
 *   small-stack (signals come on a stack of 8 KiB with a page below it that cannot be touched, as in Rust's threads)
 *   no-files (files may not grow) */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t seen;

static void on_signal(int number) { seen = number; }

static void forget(void) {
  for (char **variable = environ; *variable != NULL; variable++)
    memset(*variable, '%', strlen(*variable));
  clearenv();
}

static void take_small_stack(void) {
  enum { PAGE = 4096, BYTES = 8192 };
  char *below = mmap(NULL, PAGE + BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (below == MAP_FAILED || mprotect(below + PAGE, BYTES, PROT_READ | PROT_WRITE) != 0) exit(9);
  stack_t stack = {.ss_sp = below + PAGE, .ss_size = BYTES};
  if (sigaltstack(&stack, NULL) != 0) exit(9);
}

int main(int argc, char **argv) {
  free(malloc(3000000));
  for (int i = 1; i < argc; i++) {
    const char *what = argv[i];
    if (strcmp(what, "chdir") == 0) {
      if (chdir(argv[++i]) != 0) return 9;
    } else if (strcmp(what, "forget") == 0) {
      forget();
    } else if (strcmp(what, "fork") == 0) {
      pid_t child = fork();
      if (child == 0) break;
      printf("child %d\n", child);
      fflush(stdout);
      waitpid(child, NULL, 0);
    } else if (strcmp(what, "raise") == 0) {
      raise(atoi(argv[++i]));
    } else if (strcmp(what, "small-stack") == 0) {
      take_small_stack();
    } else if (strcmp(what, "no-files") == 0) {
      struct rlimit none = {0, 0};
      if (setrlimit(RLIMIT_FSIZE, &none) != 0) return 9;
    } else if (strcmp(what, "handle") == 0) {
      signal(atoi(argv[++i]), on_signal);
    } else if (strcmp(what, "_exit") == 0) {
      _exit(seen);
    }
  }
  return seen;
}
