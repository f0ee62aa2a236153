#include "scenarios.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- each function as the first call of the process ------------------------------------------ */

static void first_malloc(struct world *world) { world_malloc(world, 24); }
static void first_calloc(struct world *world) { world_calloc(world, 3, 5000); }
static void first_aligned(struct world *world) { world_aligned(world, 64 * KIT_KB, 100); }
static void first_memalign(struct world *world) { world_posix_memalign(world, 2 * KIT_MB, 4000); }
static void first_large(struct world *world) { world_malloc(world, 300 * KIT_KB); }
static void first_huge(struct world *world) { world_malloc(world, 5 * KIT_MB); }

static void first_realloc(struct world *world) {
  void *memory = hak_realloc(NULL, 40);
  if (memory) hak_free(memory);
  else CHECK(errno == ENOMEM, "realloc(NULL) gave NULL with error %d", errno);
  world_malloc(world, 40);
}

static void first_others(struct world *world) {
  errno = 0;
  hak_free(NULL);
  CHECK(hak_usable_size(NULL) == 0, "usable_size(NULL)");
  int on_stack;
  CHECK(!hak_owns(&on_stack) && !hak_owns(NULL), "the stack is not ours");
  hak_purge();
  kit_stats();
  world_malloc(world, 40);
}

/* --- tier by tier ----------------------------------------------------------------------------- */

static void tiny(struct world *world) {
  for (size_t i = 0; i < 3000; ++i) world_malloc(world, 1 + i * 37 % 1024);
  world_free_some(world, 3);
  for (size_t i = 0; i < 1000; ++i) world_calloc(world, 1, 1 + i * 61 % 1024);
}

static void mid(struct world *world) {
  for (size_t i = 0; i < 400; ++i) world_malloc(world, 1025 + i * 7919 % (63 * KIT_KB));
  world_free_some(world, 2);
  for (size_t i = 0; i < 100; ++i) world_calloc(world, 1, 1025 + i * 6007 % (63 * KIT_KB));
  for (size_t i = 0; i < world->count; i += 3) world_realloc(world, i, world->live[i].size * 2);
}

static void large(struct world *world) {
  for (size_t i = 0; i < 24; ++i) world_malloc(world, 64 * KIT_KB + 1 + i * 81919 % (900 * KIT_KB));
  world_free_some(world, 2);
  hak_purge();
  for (size_t i = 0; i < 12; ++i)
    world_calloc(world, 1, 64 * KIT_KB + 1 + i * 71919 % (900 * KIT_KB));
  for (size_t i = 0; i < world->count; i += 2)
    world_realloc(world, i, world->live[i].size / 2 + i % 5 * 100 * KIT_KB);
}

static void huge(struct world *world) {
  for (size_t i = 0; i < 10; ++i) world_malloc(world, KIT_MB + 1 + i * 777777);
  world_free_some(world, 3);
  world_calloc(world, 3, KIT_MB);
  world_malloc(world, 12 * KIT_MB);
  for (size_t i = 0; i < world->count; ++i) world_realloc(world, i, world->live[i].size * 3 / 2);
  for (size_t i = 0; i < world->count; ++i) world_realloc(world, i, world->live[i].size / 3);
  /* Through the tiers, up and down. */
  static const size_t sizes[] = {100, 5000, 200000, 4000000, 9000000, 300000, 20000, 500};
  for (size_t i = 0; world->count && i < sizeof sizes / sizeof *sizes; ++i)
    world_realloc(world, 0, sizes[i]);
}

static void aligned(struct world *world) {
  for (size_t alignment = 16; alignment <= 64 * KIT_MB; alignment *= 2) {
    world_aligned(world, alignment, 1);
    world_posix_memalign(world, alignment, 1500);
    world_aligned(world, alignment, 70000);
    world_posix_memalign(world, alignment, 3 * KIT_MB);
    if (world->count > 12) world_free_some(world, 3);
  }
  world_aligned(world, 1024 * KIT_MB, 100);
  world_aligned(world, 1024 * KIT_MB, 2 * KIT_MB);
  for (size_t i = 0; i < world->count; i += 2)
    world_reallocarray(world, i, 1 + world->live[i].size / 8, 16);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void grow(struct world *world) {
  if (!world_malloc(world, 16)) return;
  size_t index = world->count - 1;
  for (size_t size = 16; size < 40 * KIT_MB; size += size / 2) {
    world_realloc(world, index, size);
    world_malloc(world, 1 + size / 16); /* in the way of growing in place */
    if (world->count > 20) world_free(world, index == 3 ? 4 : 3);
  }
  while (world->live[index].size > 64) world_realloc(world, index, world->live[index].size / 2);
}

static void purge(struct world *world) {
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < 600; ++i)
      world_malloc(world, i % 10 ? 16 + i * 13 % 4000 : 50000 + i * 1000);
    world_malloc(world, 6 * KIT_MB);
    world_free_some(world, 2);
    hak_purge();
    world_check(world);
  }
  world_free_all(world);
  hak_purge();
  hak_purge();
}

static void mixed(struct world *world) {
  for (int i = 0; i < 1500; ++i) world_random_step(world, (enum kit_tier)(i / 20 % KIT_TIERS));
}

/* Blocks handed over by a thread that ends: its heap is made, given back and taken again. */
static void *thread_body(void *argument) {
  struct world *world = argument;
  for (int i = 0; i < 60; ++i) world_random_step(world, KIT_HUGE);
  return NULL;
}

static void threads(struct world *world) {
  for (int i = 0; i < 6; ++i) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, thread_body, world) == 0, "cannot create thread");
    pthread_join(id, NULL);
    world_free_some(world, 3);
  }
}

static void fork_too(struct world *world) {
  for (int i = 0; i < 100; ++i) world_random_step(world, KIT_HUGE);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  for (int i = 0; i < 100; ++i) world_random_step(world, KIT_HUGE);
  if (child == 0) {
    world_check(world);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x", status);
}

const struct scenario scenarios[] = {
    {"first-malloc", first_malloc},
    {"first-calloc", first_calloc},
    {"first-aligned", first_aligned},
    {"first-memalign", first_memalign},
    {"first-large", first_large},
    {"first-huge", first_huge},
    {"first-realloc", first_realloc},
    {"first-others", first_others},
    {"tiny", tiny},
    {"mid", mid},
    {"large", large},
    {"huge", huge},
    {"aligned", aligned},
    {"grow", grow},
    {"purge", purge},
    {"mixed", mixed},
    {"threads", threads},
    {"fork", fork_too},
    {NULL, NULL},
};
