/* storms.c - several threads make processes at once, in every way there is, while others allocate, resize and free in all tiers.
 *
 *   fork         the child looks at every shared block, frees some, allocates in every tier, starts a thread, and ends
 *   vfork        the child ends at once, or becomes another program
 *   posix_spawn  another program, with the library in it
 *   clone        CLONE_VM | CLONE_VFORK: the child runs in the parent's memory, on a stack of its own, as the parent's thread;
 *                it allocates, and its parent frees that
 *
 * A child that hangs ends by a signal, and that is a failure. In the end nothing is left (work.h).
 *
 * usage: storms all|fork|vfork|spawn|clone [seconds [forking threads [working threads]]] */
#include "work.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKERS_MOST = 8, CHILD_SECONDS = 60 };

enum way { FORK, VFORK, SPAWN, CLONE, WAYS };
static const char *const names[WAYS] = {"fork", "vfork", "spawn", "clone"};
static atomic_ulong counts[WAYS];
static atomic_bool over;
static int only = -1; /* one way */

static char program[] = "/bin/true";
static char *const program_arguments[] = {program, NULL};

static void wait_for(pid_t child, enum way way) {
  int status = -1;
  CHECK(child > 0, "%s failed", names[way]);
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR, "waitpid");
  CHECK(status == 0, "a child of %s ended with %#x%s", names[way], (unsigned)status,
        WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
  atomic_fetch_add(&counts[way], 1);
}

static void *in_child(void *number) {
  struct kit_rng rng = kit_rng_make((uintptr_t)number);
  work_turns(&rng, 40);
  return NULL;
}

/* What it frees of the shared blocks its parent has, too: they are two memories. */
__attribute__((noreturn)) static void child(uint64_t number) {
  kit_watchdog(CHILD_SECONDS);
  struct kit_rng rng = kit_rng_make(number);
  struct hak_stats stats = kit_stats();
  /* 0: the thread that forked had not allocated yet. */
  CHECK(stats.heaps_active <= 1, "%lu heaps active in a child", (unsigned long)stats.heaps_active);
  work_check();
  work_every_tier(&rng);
  for (size_t i = number % 3; i < WORK_SHARED; i += 3) work_drop(work_exchange(i, 0));
  pthread_t thread;
  bool starts = number % 4 == 0;
  if (starts)
    CHECK(pthread_create(&thread, NULL, in_child, (void *)(uintptr_t)number) == 0,
          "cannot create a thread");
  work_turns(&rng, 20);
  if (starts) pthread_join(thread, NULL);
  for (size_t i = 0; i < WORK_SHARED; i++) work_drop(work_exchange(i, 0));
  kit_purge();
  work_every_tier(&rng);
  stats = kit_stats();
  CHECK(stats.heaps_active == 1, "%lu heaps active", (unsigned long)stats.heaps_active);
  if (number % 8 == 0) exit(0);
  _exit(0);
}

static void by_fork(struct kit_rng *rng) {
  uint64_t number = kit_random(rng) >> 8;
  pid_t pid = fork();
  if (pid == 0) child(number);
  wait_for(pid, FORK);
}

/* The parent's thread stands still until the child has ended or is another program. */
static void by_vfork(struct kit_rng *rng) {
  bool becomes = kit_random(rng) % 4 == 0;
  pid_t pid = vfork(); // NOLINT: it is what is tried
  if (pid == 0) {
    if (becomes) execve(program, program_arguments, environ);
    _exit(becomes ? 127 : 0);
  }
  wait_for(pid, VFORK);
}

static void by_spawn(struct kit_rng *rng) {
  pid_t pid = 0;
  (void)rng;
  int error = posix_spawn(&pid, program, NULL, NULL, program_arguments, environ);
  CHECK(error == 0, "posix_spawn: %d", error);
  wait_for(pid, SPAWN);
}

struct borrowed {
  struct kit_rng *rng;
  kit_block block; /* of the child, for the parent to free */
};

static int in_clone(void *argument) {
  struct borrowed *borrowed = argument;
  work_turns(borrowed->rng, 10);
  borrowed->block = work_take(borrowed->rng, 1 + kit_below(borrowed->rng, 3000));
  return 0;
}

static void by_clone(struct kit_rng *rng) {
  enum { STACK = 256 << 10 };
  struct borrowed borrowed = {rng, 0};
  char *stack = mem_malloc(STACK);
  CHECK(stack, "malloc failed");
  pid_t pid = clone(in_clone, (char *)(((uintptr_t)stack + STACK) & ~(uintptr_t)63),
                    CLONE_VM | CLONE_VFORK | SIGCHLD, &borrowed);
  wait_for(pid, CLONE);
  CHECK(borrowed.block != 0, "the child has not run");
  work_drop(borrowed.block);
  mem_free(stack);
}

static void *make_processes(void *number) {
  static void (*const ways[WAYS])(struct kit_rng *) = {by_fork, by_vfork, by_spawn, by_clone};
  struct kit_rng rng = kit_rng_make(1000 + (uintptr_t)number);
  while (!atomic_load(&over)) {
    ways[only >= 0 ? (uint64_t)only : kit_below(&rng, WAYS)](&rng);
    work_every_tier(&rng);
  }
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  const char *way = argc > 1 ? argv[1] : "all";
  for (int i = 0; i < WAYS; i++)
    if (strcmp(way, names[i]) == 0) only = i;
  CHECK(only >= 0 || strcmp(way, "all") == 0, "all, fork, vfork, spawn or clone");
  unsigned seconds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 2;
  unsigned forkers = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 3;
  unsigned workers = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 2;
  CHECK(forkers <= FORKERS_MOST, "at most %d threads that fork", FORKERS_MOST);
  work_begin(workers, seconds + 120);
  pthread_t ids[FORKERS_MOST];
  for (uintptr_t i = 0; i < forkers; i++)
    CHECK(pthread_create(&ids[i], NULL, make_processes, (void *)i) == 0, "cannot create a thread");
  sleep(seconds);
  atomic_store(&over, true);
  for (unsigned i = 0; i < forkers; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < WAYS; i++) work_figure(names[i], atomic_load(&counts[i]));
  work_end(WORK_ALL_BACK);
  return 0;
}
