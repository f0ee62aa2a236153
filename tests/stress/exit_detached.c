/* The process ends while detached threads are in the middle of malloc and free: by return from main,
 * by exit() of another thread, by _exit, with an atexit handler that allocates itself.
 *
 * usage: exit_detached [processes] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 6
#define SLOTS 256

static _Atomic(kit_block) slots[SLOTS];

static void turn(struct kit_rng *rng) {
  kit_block block = 0;
  if (kit_random(rng) & 1) {
    block = kit_block_any(rng, kit_any_size(rng));
    CHECK(block, "malloc failed");
  }
  kit_block_free(atomic_exchange(&slots[kit_below(rng, SLOTS)], block));
}

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (;;) turn(&rng);
  return NULL;
}

static void *leave(void *argument) { exit(*(int *)argument); }

static void at_exit(void) {
  struct kit_rng rng = kit_rng_make(1000);
  for (int i = 0; i < 500; ++i) turn(&rng);
}

static void process(unsigned number) {
  static int status = 0;
  kit_watchdog(KIT_SANITIZED ? 120 : 30);
  atexit(at_exit);
  for (uintptr_t i = 0; i < THREADS; ++i) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, work, (void *)(i + number * THREADS)) == 0,
          "cannot create thread");
    pthread_detach(id);
  }
  struct timespec pause = {0, 500000L * (1 + number % 16)};
  nanosleep(&pause, NULL);
  switch (number % 4) {
  case 0:
    _exit(0);
  case 1: {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, leave, &status) == 0, "cannot create thread");
    pthread_exit(NULL);
  }
  default:
    exit(0);
  }
}

/* In a program of its own where libc may be musl: 1.2.3 leaves its list of threads locked when the main thread of a process
 * that fork() made has ended, and whoever starts a thread after that, as the allocator may, waits for ever. */
static void process_of(unsigned number, char *program) {
#ifdef __GLIBC__
  (void)program;
  process(number);
#else
  char text[16];
  snprintf(text, sizeof text, "%u", number);
  char *arguments[] = {program, "process", text, NULL};
  execv("/proc/self/exe", arguments);
  CHECK(false, "execv");
#endif
}

int main(int argc, char **argv) {
  kit_start();
  if (argc > 2) process((unsigned)strtoul(argv[2], NULL, 10));
  unsigned processes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : (unsigned)kit_rounds(100);
  for (unsigned i = 0; i < processes; ++i) {
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) process_of(i, argv[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(!WIFSIGNALED(status), "process %u ended by signal %d%s", i, WTERMSIG(status),
          WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
    CHECK(WEXITSTATUS(status) == 0, "process %u exited with %d", i, WEXITSTATUS(status));
  }
  printf("%u processes ended with %d threads at work\n", processes, THREADS);
  return 0;
}
