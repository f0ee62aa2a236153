/* Two threads are inside the process's very first allocation while another forks; the child has to be able to
 * allocate. The first allocation happens once in a process, so each try is a process of its own, forked from one that
 * has never allocated. (With musl the fork handlers' registration has, before main: only that they are there in time is
 * tested then.)
 *
 * usage: fork_first [tries] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int begun;

static void use_a_block(void) {
  void *block = mem_malloc(100);
  CHECK(block, "malloc failed");
  mem_free(block);
}

static void *allocate(void *argument) {
  atomic_fetch_add(&begun, 1);
  use_a_block();
  return argument;
}

static void wait_for(pid_t child, const char *who) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or waitpid");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s ended with status %#x%s", who, status,
        WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
}

/* In a process without any allocation so far. `delay`: turns between the thread's start and the fork. */
static void try_once(uint64_t delay) {
  kit_watchdog(20);
  pthread_t ids[2];
  for (int i = 0; i < 2; i++)
    CHECK(pthread_create(&ids[i], NULL, allocate, NULL) == 0, "cannot create thread");
  while (atomic_load(&begun) == 0) continue;
  for (volatile uint64_t i = 0; i < delay; i++) continue;
  pid_t child = fork();
  if (child == 0) {
    kit_watchdog(10);
    use_a_block();
    _exit(0);
  }
  wait_for(child, "a child");
  for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(280);
  if (KIT_SANITIZED) {
    puts("skipped: a sanitizer holds locks of its own while a thread starts");
    return KIT_SKIP;
  }
  uint64_t tries = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(400);
  for (uint64_t i = 0; i < tries; i++) {
    pid_t process = fork();
    if (process == 0) {
      try_once(i % 40 * 1000);
      _exit(0);
    }
    wait_for(process, "a try");
  }
  printf("%lu forks beside a first allocation\n", (unsigned long)tries);
  return 0;
}
