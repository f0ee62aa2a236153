/* small_objects.c - linked objects of 16 to 128 bytes, made and dropped in generations.
 *
 * A thread links objects into lists until a generation is full, then drops the oldest of those it
 * keeps: it walks the lists and frees, except that one object in eight goes over to the youngest
 * generation. So objects die in another order than they were made in, and survivors hold on to the
 * slabs of the dead. An object is an operation.
 *
 * What it shows: the speed of the smallest classes with a live set beyond the first caches, and how
 * near to each other objects lie that are used together: the walk misses the cache where they do
 * not.
 */
#define _GNU_SOURCE
#include "harness.h"

#define LISTS 64

struct object {
  uint32_t stamp;
  struct object *next;
};

struct generation {
  struct object *lists[LISTS];
};

struct settings {
  uint64_t threads, objects, size, kept;
  struct generation *generations; /* of all threads */
};

/* Frees a generation; survivors, if there may be any, go to `heir`. */
static uint64_t drop(struct generation *generation, struct generation *heir) {
  uint64_t checksum = 0;
  for (int i = 0; i < LISTS; i++) {
    struct object *object = generation->lists[i];
    generation->lists[i] = NULL;
    while (object != NULL) {
      struct object *next = object->next;
      if (heir != NULL && object->stamp % 8 == 0) {
        /* Another stamp, so that it may die next time. */
        object->stamp = object->stamp / 8 * 5 + 1;
        object->next = heir->lists[i];
        heir->lists[i] = object;
      } else {
        checksum += object->stamp;
        free(object);
      }
      object = next;
    }
  }
  return checksum;
}

static void make(struct generation *generation, uint64_t count, uint64_t *random) {
  uint64_t state = *random;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t draw = bench_draw(&state);
    struct object *object = bench_malloc(16 + bench_below(bench_high(draw), 113));
    struct object **list = &generation->lists[draw % LISTS];
    object->stamp = bench_low(draw) / LISTS;
    object->next = *list;
    *list = object;
  }
  *random = state;
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  struct generation *generations = settings->generations + worker->index * settings->kept;
  uint64_t left = bench_share(settings->objects, settings->threads, worker->index);
  worker->operations = left;
  for (uint64_t round = 0; left != 0; round++) {
    struct generation *youngest = &generations[round % settings->kept];
    uint64_t count = left < settings->size ? left : settings->size;
    make(youngest, count, &worker->random);
    left -= count;
    struct generation *oldest = &generations[(round + 1) % settings->kept];
    worker->checksum += drop(oldest, youngest);
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OBJECTS", "objects of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"GENERATION", "objects of a generation", 1, UINT64_C(1) << 28, NULL, NULL},
      {"KEPT", "generations of a thread that are alive", 2, 1 << 16, NULL, NULL},
      BENCH_SEED,
  };
  uint64_t values[5];
  bench_arguments(argc, argv, "Linked objects, made and dropped in generations.", arguments, 5,
                  values);
  struct settings settings = {
      .threads = values[0],
      .objects = values[1],
      .size = values[2],
      .kept = values[3],
  };
  uint64_t generations = settings.threads * settings.kept;
  settings.generations = bench_map(generations * sizeof(struct generation));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[4]);

  for (uint64_t i = 0; i < generations; i++)
    result.checksum += drop(&settings.generations[i], NULL);
  bench_report(&result);
  return 0;
}
