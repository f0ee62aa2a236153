/* Threads allocate, resize and free in all tiers, and are born and end, while the process forks. Each child allocates in
 * every tier at once, frees blocks of threads that do not exist in it, starts a thread of its own,
 * every second one forks a grand-child, and exits. A deadlock ends by the watchdog.
 *
 * usage: fork_storm [main|thread [forks]]      who forks: the main thread or another */
#include "kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Threads 0 to HAMMERS - 1: one that bears others, and hammers. Sanitizers hold locks of their own while a thread starts
 * or ends, which the next thread of a forked child would wait for for ever: there only hammers, no fork before all have begun and
 * the library's helper with them, no child's fork before its thread has ended, and no thread in a grand-child. */
#define HAMMERS 4
#define FIRST (KIT_SANITIZED ? 1 : 0)

#define SLOTS 192

static _Atomic(kit_block) slots[SLOTS];
static atomic_bool stop;
static atomic_int hammering; /* hammers that have begun */
static uint64_t forks;
static kit_block own[KIT_TIERS]; /* of the forking thread */

static void turn(struct kit_rng *rng) {
  uint64_t draw = kit_random(rng);
  kit_block block = 0;
  if (draw & 1) {
    block = kit_block_any(rng, kit_any_size(rng));
    CHECK(block, "malloc failed");
  }
  block = atomic_exchange(&slots[kit_below(rng, SLOTS)], block);
  if (block && (draw & 6) == 6) {
    block = kit_block_resize(block, kit_any_size(rng), draw);
    CHECK(block, "realloc failed");
  }
  kit_block_free(block);
}

static void *hammer(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  atomic_fetch_add(&hammering, 1);
  while (!atomic_load(&stop)) turn(&rng);
  return NULL;
}

/* The helper takes its name when it has been set up. What the hammers free keeps it busy from then on. */
static bool helper_runs(void) {
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks, "cannot read /proc/self/task");
  bool found = false;
  for (struct dirent *task; !found && (task = readdir(tasks));) {
    char path[300], name[8] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    int file = open(path, O_RDONLY);
    if (file < 0) continue;
    found = read(file, name, sizeof name - 1) > 0 && strcmp(name, "hakmem\n") == 0;
    close(file);
  }
  closedir(tasks);
  return found;
}

/* Threads that are born and end, so that a fork can fall into both. */
static void *brief(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (int i = 0; i < 5; ++i) turn(&rng);
  return NULL;
}

static void *bear(void *argument) {
  for (uintptr_t i = 0; !atomic_load(&stop); ++i) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, brief, (void *)(i + 1000)) == 0, "cannot create thread");
    pthread_join(id, NULL);
  }
  return argument;
}

static void *in_child(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (int i = 0; i < 40; ++i) turn(&rng);
  return NULL;
}

static void every_tier(struct kit_rng *rng) {
  for (int tier = 0; tier < KIT_TIERS; ++tier) {
    kit_block block = kit_block_malloc(kit_tier_size(rng, (enum kit_tier)tier), kit_random(rng));
    CHECK(block, "malloc failed");
    block = kit_block_resize(block, kit_tier_size(rng, (enum kit_tier)tier), kit_random(rng));
    CHECK(block, "realloc failed");
    kit_block_free(block);
  }
}

static void wait_for(pid_t child, const char *who, uint64_t number) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or waitpid");
  CHECK(!WIFSIGNALED(status), "%s %lu ended by signal %d%s", who, (unsigned long)number,
        WTERMSIG(status), WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
  CHECK(WEXITSTATUS(status) == 0, "%s %lu exited with %d", who, (unsigned long)number,
        WEXITSTATUS(status));
}

/* Most by _exit; some through the exit handlers, the allocator's own among them. */
__attribute__((noreturn)) static void leave(uint64_t number) {
  if (!KIT_SANITIZED && number % 8 == 0) exit(0);
  _exit(0);
}

static void child(uint64_t number, int generation) {
  kit_watchdog(KIT_SANITIZED ? 120 : 30);
  struct kit_rng rng = kit_rng_make(number);
  every_tier(&rng);
  /* Only now: while a fork waits for long, others may take the forking thread's heap away, and the child has none until it
   * allocates. */
  struct hak_stats stats = kit_stats();
  CHECK(stats.heaps_active == 1, "%lu heaps active in a child with one thread",
        (unsigned long)stats.heaps_active);
  for (int tier = 0; tier < KIT_TIERS; ++tier) {
    kit_block_free(own[tier]);
    own[tier] = 0;
  }
  for (size_t i = 0; i < SLOTS; i += 2) kit_block_free(atomic_exchange(&slots[i], 0));
  /* TSan takes the new thread for one of the parent's, whose stack and id it has inherited. */
  pthread_t id;
  bool running = !KIT_TSAN && !(KIT_SANITIZED && generation > 0);
  if (running)
    CHECK(pthread_create(&id, NULL, in_child, (void *)(uintptr_t)number) == 0,
          "cannot create thread");
  for (int i = 0; i < 10; ++i) turn(&rng);
  bool forks_again = generation == 0 && number % 2 == 0;
  if (KIT_SANITIZED && forks_again) {
    if (running) pthread_join(id, NULL);
    running = false;
    usleep(10000); /* the helper may be starting too */
  }
  if (forks_again) {
    pid_t grandchild = fork();
    if (grandchild == 0) {
      child(number + 1000000, 1);
      leave(number);
    }
    wait_for(grandchild, "grand-child", number);
  }
  if (running) pthread_join(id, NULL);
  for (size_t i = 0; i < SLOTS; ++i) kit_block_free(atomic_exchange(&slots[i], 0));
  kit_purge();
  every_tier(&rng);
}

static void *fork_repeatedly(void *argument) {
  struct kit_rng rng = kit_rng_make(12345);
  for (uint64_t i = 0; i < forks; ++i) {
    for (int tier = 0; tier < KIT_TIERS; ++tier)
      if (!own[tier]) own[tier] = kit_block_any(&rng, kit_tier_size(&rng, (enum kit_tier)tier));
    pid_t pid = fork();
    if (pid == 0) {
      child(i, 0);
      leave(i);
    }
    every_tier(&rng);
    wait_for(pid, "child", i);
    kit_block_free(own[i % KIT_TIERS]);
    own[i % KIT_TIERS] = 0;
  }
  for (int tier = 0; tier < KIT_TIERS; ++tier) kit_block_free(own[tier]);
  return argument;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(280);
  bool from_main = argc < 2 || strcmp(argv[1], "main") == 0;
  if (KIT_TSAN) puts("under TSan without threads in the children: it cannot follow them");
  forks = argc > 2 ? strtoull(argv[2], NULL, 10) : kit_rounds(from_main ? 200 : 120);
  pthread_t ids[HAMMERS];
  for (uintptr_t i = FIRST; i < HAMMERS; ++i)
    CHECK(pthread_create(&ids[i], NULL, i ? hammer : bear, (void *)i) == 0, "cannot create thread");
  while (KIT_SANITIZED && atomic_load(&hammering) < HAMMERS - 1) sched_yield();
  const char *background = getenv("HAKMEM_BACKGROUND");
  bool has_helper = background == NULL || strcmp(background, "0") != 0;
  while (KIT_SANITIZED && has_helper && !helper_runs()) usleep(1000);
  if (from_main) {
    fork_repeatedly(NULL);
  } else {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, fork_repeatedly, NULL) == 0, "cannot create thread");
    pthread_join(id, NULL);
  }
  atomic_store(&stop, true);
  for (size_t i = FIRST; i < HAMMERS; ++i) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SLOTS; ++i) kit_block_free(slots[i]);
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("%lu forks from %s thread: left %lu superslabs, heaps %lu active + %lu parked\n",
         (unsigned long)forks, from_main ? "the main" : "another",
         (unsigned long)stats.superslabs_live, (unsigned long)stats.heaps_active,
         (unsigned long)stats.heaps_parked);
  CHECK(stats.superslabs_live <= 4, "superslabs are left");
  CHECK(stats.heaps_active == 1, "heaps of ended threads are still active");
  return 0;
}
