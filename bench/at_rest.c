/* at_rest.c - memory that is free, but lies where no thread looks any more: what stays resident?
 *
 * THREADS fill MIB with blocks of SIZE bytes, every byte written. When all are filled, MODE says who
 * frees them:
 *
 *   others  the main thread, while those that allocated them sleep
 *   own     each thread its own, and then it sleeps
 *   ended   the main thread, after those that allocated them have ended
 *
 * Then no thread calls the allocator any more, and resident memory is read every 250 ms for SECONDS.
 * An operation is a malloc or a free; the time of silence is not counted.
 *
 * What it shows: whether memory goes back that waits in the inbox of a thread that sleeps, in its cache
 * of large blocks, or in the heap that an ended thread has left. An allocator that gives memory back
 * only while it is called keeps all of it.
 */
#define _GNU_SOURCE
#include "harness.h"

#define SAMPLE 0.25 /* seconds between two looks at resident memory */

enum mode { OTHERS, OWN, ENDED };

struct settings {
  enum mode mode;
  uint64_t threads, bytes, size, seconds;
  struct owner *owners;
  pthread_barrier_t filled, freed, over;
  long resident_filled;
  double active;
  struct sample {
    double time;
    long resident;
  } * samples;
  uint64_t sample_count;
};

/* A thread and the blocks that it allocates. */
struct owner {
  _Alignas(128) struct settings *settings;
  pthread_t thread;
  char **slots;
  uint64_t count, checksum;
};

static void fill(struct owner *owner, uint64_t size) {
  for (uint64_t i = 0; i < owner->count; i++) {
    char *block = bench_malloc(size);
    memset(block, (char)i, size);
    bench_stamp(block, (uint32_t)i);
    owner->slots[i] = block;
  }
}

static void release(struct owner *owner) {
  owner->checksum = bench_free_stamped(owner->slots, owner->count);
  /* The table is not to count as memory that the allocator keeps. */
  bench_unmap_rest(owner->slots, 0, owner->count * sizeof(char *));
}

static void *own(void *argument) {
  struct owner *owner = argument;
  struct settings *settings = owner->settings;
  fill(owner, settings->size);
  pthread_barrier_wait(&settings->filled);
  if (settings->mode == ENDED) return NULL;
  pthread_barrier_wait(&settings->filled); /* measured */
  if (settings->mode == OWN) release(owner);
  pthread_barrier_wait(&settings->freed);
  pthread_barrier_wait(&settings->over);
  return NULL;
}

static void join_all(struct settings *settings) {
  for (uint64_t i = 0; i < settings->threads; i++) pthread_join(settings->owners[i].thread, NULL);
}

static void watch_silence(struct settings *settings) {
  double begin = bench_clock(CLOCK_MONOTONIC);
  for (uint64_t i = 0; i < settings->sample_count; i++) {
    bench_sleep_until(begin + (double)i * SAMPLE);
    settings->samples[i] =
        (struct sample){bench_clock(CLOCK_MONOTONIC) - begin, bench_resident_now()};
  }
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  double begin = bench_clock(CLOCK_MONOTONIC);
  for (uint64_t i = 0; i < settings->threads; i++) {
    struct owner *owner = &settings->owners[i];
    int error = pthread_create(&owner->thread, NULL, own, owner);
    if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
  }
  pthread_barrier_wait(&settings->filled);
  settings->resident_filled = bench_resident_now();
  if (settings->mode == ENDED) join_all(settings);
  else pthread_barrier_wait(&settings->filled);
  if (settings->mode != OWN)
    for (uint64_t i = 0; i < settings->threads; i++) release(&settings->owners[i]);
  if (settings->mode != ENDED) pthread_barrier_wait(&settings->freed);
  settings->active = bench_clock(CLOCK_MONOTONIC) - begin;
  watch_silence(settings);
  if (settings->mode != ENDED) {
    pthread_barrier_wait(&settings->over);
    join_all(settings);
  }
  for (uint64_t i = 0; i < settings->threads; i++) {
    worker->checksum += settings->owners[i].checksum;
    worker->operations += 2 * settings->owners[i].count;
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"MODE", "who frees the blocks", 0, 0, "others|own|ended", NULL},
      {"THREADS", "threads that allocate", 1, BENCH_MAX_THREADS - 1, NULL, NULL},
      {"MIB", "MiB of blocks, all threads together", 1, 1 << 20, NULL, NULL},
      {"SIZE", "size of a block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      {"SECONDS", "seconds without a call, resident memory read", 0, 86400, NULL, "5"},
      BENCH_SEED,
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "Free memory that lies where no thread looks: what stays resident.",
                  arguments, 6, values);
  static struct settings settings;
  settings = (struct settings){
      .mode = (enum mode)values[0],
      .threads = values[1],
      .bytes = values[2] << 20,
      .size = values[3],
      .seconds = values[4],
      .sample_count = values[4] * (uint64_t)(1 / SAMPLE) + 1,
  };
  settings.owners = bench_map(settings.threads * sizeof(struct owner));
  settings.samples = bench_map(settings.sample_count * sizeof(struct sample));
  for (uint64_t i = 0; i < settings.threads; i++) {
    struct owner *owner = &settings.owners[i];
    owner->settings = &settings;
    owner->count = bench_share(settings.bytes, settings.threads, i) / settings.size + 1;
    owner->slots = bench_map(owner->count * sizeof(char *));
  }
  pthread_barrier_init(&settings.filled, NULL, (unsigned)settings.threads + 1);
  pthread_barrier_init(&settings.freed, NULL, (unsigned)settings.threads + 1);
  pthread_barrier_init(&settings.over, NULL, (unsigned)settings.threads + 1);

  struct bench_result result = bench_run(1, work, &settings, values[5]);

  result.seconds = settings.active;
  printf("fill: threads=%" PRIu64 " blocks=%" PRIu64 " resident_kb=%ld\n", settings.threads,
         result.operations / 2, settings.resident_filled);
  printf("freed 100%%: live_kb=0\n");
  for (uint64_t i = 0; i < settings.sample_count; i++)
    printf("idle %.2f s: resident_kb=%ld\n", settings.samples[i].time,
           settings.samples[i].resident);
  bench_report(&result);
  return 0;
}
