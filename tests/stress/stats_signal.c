/* stats_signal.c - HAKMEM_STATS_SIGNAL by the thousand, to threads that allocate in all tiers, fork and come and go: the
 * handler interrupts whatever there is, locks held or not. Nothing hangs or crashes, and what is written is whole lines.
 *
 * The environment has HAKMEM_STATS_SIGNAL=USR1 and HAKMEM_STATS_FILE=FILE; FILE is read and removed.
 *
 * usage: stats_signal FILE [signals] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 3
#define SHARED 64

static _Atomic(kit_block) shared[SHARED];
static atomic_bool stop;

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (unsigned i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
    kit_block block = kit_block_any(&rng, kit_any_size(&rng));
    CHECK(block, "malloc failed");
    kit_block_free(
        atomic_exchange_explicit(&shared[kit_below(&rng, SHARED)], block, memory_order_acq_rel));
    if (i % 256 == 0) kit_purge();
  }
  return NULL;
}

/* A child allocates, and is asked, too. */
static void fork_once(void) {
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    kit_watchdog(60);
    for (int i = 0; i < 100; i++) mem_free(mem_malloc(3000));
    raise(SIGUSR1);
    _exit(0);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  CHECK(status == 0, "the child ended with status %#x", (unsigned)status);
}

static void *take_one(void *unused) {
  (void)unused;
  return mem_malloc(100);
}

/* Threads that end and begin meanwhile. */
static void *start_others(void *unused) {
  while (!atomic_load(&stop)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, take_one, NULL) == 0, "cannot create a thread");
    void *block;
    pthread_join(thread, &block);
    mem_free(block);
  }
  return unused;
}

/* At least one of each child, and one of their parent. */
static void check_lines(const char *path, unsigned long children) {
  static char line[1 << 18];
  FILE *file = fopen(path, "r");
  CHECK(file != NULL, "no %s was written", path);
  unsigned long lines = 0, partial = 0;
  for (; fgets(line, sizeof line, file) != NULL; lines++) {
    size_t length = strlen(line);
    CHECK(strncmp(line, "{\"version\":1,", 13) == 0 && strcmp(line + length - 2, "}\n") == 0,
          "line %lu is not whole: %.100s", lines + 1, line);
    if (strstr(line, "\"partial\":true") != NULL) partial++;
  }
  fclose(file);
  unlink(path);
  printf("%lu statistics, %lu of them partial\n", lines, partial);
  CHECK(lines > children, "%lu statistics are too few", lines);
}

int main(int argc, char **argv) {
  if (argc < 2 || getenv("HAKMEM_STATS_SIGNAL") == NULL) {
    puts("usage: stats_signal FILE [signals], with the variables of its header");
    return 2;
  }
  unlink(argv[1]);
  kit_start();
  kit_watchdog(240);
  mem_free(mem_malloc(1)); /* the handler is there from the first block on */
  uint64_t signals = argc > 2 ? strtoull(argv[2], NULL, 10) : kit_rounds(3000);
  pthread_t ids[WORKERS], starter;
  for (uintptr_t i = 0; i < WORKERS; i++)
    CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0, "cannot create a thread");
  CHECK(pthread_create(&starter, NULL, start_others, NULL) == 0, "cannot create a thread");
  unsigned long children = 0;
  for (uint64_t i = 0; i < signals; i++) {
    pthread_kill(ids[i % WORKERS], SIGUSR1);
    if (i % 4 == 0) kill(getpid(), SIGUSR1); /* to whichever thread */
    if (i % 100 == 0) {
      fork_once();
      children++;
    }
    usleep(200);
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < WORKERS; i++) pthread_join(ids[i], NULL);
  pthread_join(starter, NULL);
  for (size_t i = 0; i < SHARED; i++) kit_block_free(shared[i]);
  check_lines(argv[1], children);
  fflush(stdout);
  _exit(0); /* so that no more is written to the file */
}
