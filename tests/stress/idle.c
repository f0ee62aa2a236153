/* A process that goes quiet: threads fill and free most of it, then nobody calls the allocator. What is free
 * has to go back all the same, by a helper thread that sleeps afterwards without waking up; live blocks stay as they
 * are, and the load can come back.
 *
 * usage: idle [FREE_PERCENT MOST_PERCENT]: at most so much of the peak may stay resident */
#include "kit.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, WAIT_SECONDS = 60, QUIET_SECONDS = 2 };
#define BYTES ((KIT_SANITIZED ? 48 : 192) * KIT_MB)
#define BLOCKS_MOST (BYTES / THREADS / 1000)

static kit_block blocks[THREADS][BLOCKS_MOST];
static pthread_barrier_t quiet, again;
static unsigned free_percent;

static void fill(kit_block *mine, struct kit_rng *rng) {
  size_t budget = BYTES / THREADS;
  for (size_t i = 0; i < BLOCKS_MOST && budget > 0; i++) {
    if (mine[i] != 0) continue;
    size_t size = 16 + kit_below(rng, 4081);
    mine[i] = kit_block_malloc(size, kit_random(rng));
    CHECK(mine[i], "malloc(%zu) failed", size);
    budget -= size < budget ? size : budget;
  }
}

static void empty(kit_block *mine, struct kit_rng *rng, unsigned percent) {
  for (size_t i = 0; i < BLOCKS_MOST; i++) {
    if (mine[i] == 0 || kit_below(rng, 100) >= percent) continue;
    kit_block_free(mine[i]);
    mine[i] = 0;
  }
}

static void *work(void *argument) {
  size_t number = (size_t)(uintptr_t)argument;
  struct kit_rng rng = kit_rng_make(number + 1);
  fill(blocks[number], &rng);
  empty(blocks[number], &rng, free_percent);
  pthread_barrier_wait(&quiet);
  pthread_barrier_wait(&again);
  for (size_t i = 0; i < BLOCKS_MOST; i++)
    if (blocks[number][i] != 0) kit_block_check(blocks[number][i]);
  fill(blocks[number], &rng);
  empty(blocks[number], &rng, 100);
  return NULL;
}

/* How often the helper has gone to sleep; 0: there is none. */
static unsigned long sleeps_of_helper(void) {
  unsigned long sleeps = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks, "cannot read /proc/self/task");
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
    FILE *file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
    if (file == NULL) continue;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *at = strstr(text, "\nvoluntary_ctxt_switches:");
    if (strncmp(text, "Name:\thakmem\n", 13) == 0 && at != NULL)
      sleeps = strtoul(strchr(at, ':') + 1, NULL, 10);
  }
  closedir(tasks);
  return sleeps;
}

int main(int argc, char **argv) {
  kit_start();
  free_percent = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 100;
  unsigned most_percent = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 10;
  pthread_t threads[THREADS];
  pthread_barrier_init(&quiet, NULL, THREADS + 1);
  pthread_barrier_init(&again, NULL, THREADS + 1);
  (void)sleeps_of_helper(); /* what it allocates is allocated now */
  size_t before = kit_resident();
  for (size_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0,
          "cannot create thread");
  pthread_barrier_wait(&quiet);
  size_t target = before + BYTES / 100 * most_percent, resident = 0;
  unsigned long sleeps = 0;
  unsigned waited = 0, quiet_for = 0;
  for (; waited < WAIT_SECONDS * 10 && quiet_for < QUIET_SECONDS * 10; waited++) {
    usleep(100000);
    resident = kit_resident();
    unsigned long now = sleeps_of_helper();
    quiet_for = resident <= target && now == sleeps ? quiet_for + 1 : 0;
    sleeps = now;
  }
  printf("%u%% of %zu MB freed: %zu MB resident after %u.%u s, the helper has slept %lu times\n",
         free_percent, BYTES / KIT_MB, resident / KIT_MB, waited / 10, waited % 10, sleeps);
  CHECK(resident <= target, "more than %zu MB stay resident", target / KIT_MB);
  CHECK(quiet_for == QUIET_SECONDS * 10, "the helper goes on waking up");
  CHECK(sleeps > 0 || KIT_SANITIZED, "there is no helper");
  pthread_barrier_wait(&again);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return 0;
}
