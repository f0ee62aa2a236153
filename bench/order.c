/* order.c - do free blocks that go round between threads keep the order of their addresses?
 *
 * Producers allocate groups of GROUP blocks of SIZE bytes, write them, and put each group on a stack
 * of at most STACK groups; as many consumers free one group after the other. Two blocks of a group that
 * follow each other are neighbours when their addresses differ by at most SIZE + 64. The processor
 * foresees where the second one lies. After the run a line for each of PARTS equal parts of it says how
 * many neighbours lie in a row, on average, and how many million blocks a second were allocated. A block
 * allocated is an operation.
 *
 * Threads and stack are those of xmalloc-test (Lever and Boreham, 2000).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdatomic.h>

#define MAX_PARTS 64
#define NEAR 64

struct group {
  struct group *next;
  char *blocks[];
};

struct part {
  uint64_t groups, cuts; /* in each producer, added up */
  double end;
};

struct settings {
  uint64_t producers, groups, group, size, most, parts;
  pthread_mutex_t lock;
  pthread_cond_t filled, emptied;
  struct group *stack;
  uint64_t held, pushed;
  struct part part[MAX_PARTS];
};

static struct group *make_group(const struct settings *settings, uint64_t *cuts) {
  struct group *group = bench_malloc(sizeof *group + settings->group * sizeof group->blocks[0]);
  uintptr_t last = 0;
  for (uint64_t i = 0; i < settings->group; i++) {
    char *block = bench_malloc(settings->size);
    memset(block, (int)i, settings->size);
    uintptr_t at = (uintptr_t)block, apart = at > last ? at - last : last - at;
    *cuts += apart > settings->size + NEAR;
    last = at;
    group->blocks[i] = block;
  }
  return group;
}

static void push(struct settings *settings, struct group *group, uint64_t cuts) {
  pthread_mutex_lock(&settings->lock);
  while (settings->held == settings->most) pthread_cond_wait(&settings->emptied, &settings->lock);
  group->next = settings->stack;
  settings->stack = group;
  settings->held++;
  struct part *part = &settings->part[settings->pushed * settings->parts / settings->groups];
  part->groups++;
  part->cuts += cuts;
  part->end = bench_clock(CLOCK_MONOTONIC);
  if (++settings->pushed == settings->groups) pthread_cond_broadcast(&settings->filled);
  else pthread_cond_signal(&settings->filled);
  pthread_mutex_unlock(&settings->lock);
}

/* NULL: there will be no more. */
static struct group *pop(struct settings *settings) {
  pthread_mutex_lock(&settings->lock);
  while (settings->held == 0 && settings->pushed < settings->groups)
    pthread_cond_wait(&settings->filled, &settings->lock);
  struct group *group = settings->stack;
  if (group != NULL) {
    settings->stack = group->next;
    settings->held--;
    pthread_cond_signal(&settings->emptied);
  }
  pthread_mutex_unlock(&settings->lock);
  return group;
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  if (worker->index < settings->producers) {
    uint64_t left = bench_share(settings->groups, settings->producers, worker->index);
    worker->operations = left * settings->group;
    for (; left > 0; left--) {
      uint64_t cuts = 0;
      struct group *group = make_group(settings, &cuts);
      push(settings, group, cuts);
    }
    return false;
  }
  for (struct group *group; (group = pop(settings)) != NULL; free(group))
    for (uint64_t i = 0; i < settings->group; i++) {
      worker->checksum += (unsigned char)group->blocks[i][0];
      free(group->blocks[i]);
    }
  return false;
}

static void report_parts(const struct settings *settings, double begin) {
  for (uint64_t i = 0; i < settings->parts; i++) {
    const struct part *part = &settings->part[i];
    double blocks = (double)part->groups * (double)settings->group;
    double seconds = part->end > begin ? part->end - begin : 1e-9;
    printf("part=%" PRIu64 " run=%.0f Mops=%.1f\n", i + 1, blocks / (double)part->cuts,
           blocks / seconds / 1e6);
    begin = part->end;
  }
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"PRODUCERS", "threads that allocate, and as many free", 1, BENCH_MAX_THREADS / 2, NULL,
       NULL},
      {"GROUPS", "groups of all producers", MAX_PARTS, BENCH_MAX_OPERATIONS / MAX_PARTS, NULL,
       NULL},
      {"GROUP", "blocks of a group", 1, 1 << 20, NULL, "4096"},
      {"SIZE", "bytes of a block", 1, 1 << 20, NULL, "64"},
      {"STACK", "groups that wait, at most", 1, 1 << 20, NULL, "100"},
      {"PARTS", "parts of the run with a line each", 1, MAX_PARTS, NULL, "8"},
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "Whether blocks that go round keep the order of their addresses.",
                  arguments, 6, values);
  static struct settings settings;
  settings = (struct settings){
      .producers = values[0],
      .groups = values[1],
      .group = values[2],
      .size = values[3],
      .most = values[4],
      .parts = values[5],
      .lock = PTHREAD_MUTEX_INITIALIZER,
      .filled = PTHREAD_COND_INITIALIZER,
      .emptied = PTHREAD_COND_INITIALIZER,
  };
  double begin = bench_clock(CLOCK_MONOTONIC);
  struct bench_result result = bench_run(2 * settings.producers, work, &settings, 0);
  report_parts(&settings, begin);
  bench_report(&result);
  return 0;
}
