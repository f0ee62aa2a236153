/* peak.c - what each stack held when the samples stood for most live bytes (sample/sums.h), against a model that copies all stacks at
 * each peak. Each block is a sample here, so that each call changes something. */
#include "unit_test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap/samples.h"
#include "sample/sums.h"

static uint64_t figure(const _Atomic uint64_t *of) { return atomic_load(of); }

/* --- what a tool would see ------------------------------------------------------------------------------------- */

struct held {
  uint64_t samples, blocks, bytes;
};

enum { STACKS_MOST = 4096 };
struct held_by {
  struct held stacks[STACKS_MOST];
  size_t count;
};

static struct held lives_at(const struct sample_stack *stack) {
  return (struct held){figure(&stack->allocated.samples) - figure(&stack->freed.samples),
                       figure(&stack->allocated.blocks) - figure(&stack->freed.blocks),
                       figure(&stack->allocated.bytes) - figure(&stack->freed.bytes)};
}

/* As tools/profile.c. */
static struct held held_at_peak(const struct sample_stack *stack) {
  if (figure(&stack->saved_for) != figure(&samples.peak.number)) return lives_at(stack);
  return (struct held){figure(&stack->at_peak.samples), figure(&stack->at_peak.blocks),
                       figure(&stack->at_peak.bytes)};
}

/* Stacks are never removed, and lie in the order in which they came. */
static void look(struct held_by *held, struct held (*of)(const struct sample_stack *)) {
  enum { WORDS = SAMPLE_STACK_CHUNK_BYTES / 8 };
  held->count = 0;
  for (uint32_t at = 1, end = atomic_load(&samples.stacks_end); at < end;) {
    const struct sample_stack *stack = stack_at(at);
    if (at % WORDS + sizeof *stack / 8 > WORDS || stack->hash == 0) {
      at = (at / WORDS + 1) * WORDS;
      continue;
    }
    assert_true(held->count < STACKS_MOST);
    held->stacks[held->count++] = of(stack);
    at += (uint32_t)(sizeof *stack / 8) + stack->depth;
  }
}

static struct held sum(const struct held_by *held) {
  struct held all = {0};
  for (size_t i = 0; i < held->count; i++) {
    all.samples += held->stacks[i].samples;
    all.blocks += held->stacks[i].blocks;
    all.bytes += held->stacks[i].bytes;
  }
  return all;
}

/* Each sample has a stack here, so nothing is missing in the sums. */
static void assert_sums_agree(void) {
  static struct held_by held;
  look(&held, held_at_peak);
  assert_int_equal(sum(&held).bytes, figure(&samples.peak.bytes));
  assert_int_equal(sum(&held).samples, figure(&samples.peak.samples));
  look(&held, lives_at);
  assert_int_equal(sum(&held).bytes, figure(&samples.live_bytes));
}

/* --- places that allocate --------------------------------------------------------------------------------------- */

enum { PLACES = 8, HELD = 256, LARGEST = 5000000 };
static _Thread_local volatile int sink;

/* A frame of its own, for each way of calling. */
#define PLACE(name)                                                                                \
  static HAK_NOINLINE void *name(void *block, size_t size) {                                       \
    block = block == NULL ? hak_malloc(size) : hak_realloc(block, size);                           \
    assert_non_null(block);                                                                        \
    sink++;                                                                                        \
    return block;                                                                                  \
  }
PLACE(place_0)
PLACE(place_1)
PLACE(place_2)
PLACE(place_3)
PLACE(place_4)
PLACE(place_5)
PLACE(place_6)
PLACE(place_7)

static void *(*const places[PLACES])(void *block, size_t size) = {
    place_0, place_1, place_2, place_3, place_4, place_5, place_6, place_7};

static size_t size_by_chance(uint64_t *random) {
  uint64_t kind = random_below(random, 100);
  return 1 + random_below(random, kind == 0 ? LARGEST : kind < 10 ? 100000 : 2000);
}

static void step(void *held[HELD], uint64_t *random) {
  void **block = &held[random_below(random, HELD)];
  void *(*place)(void *, size_t) = places[random_below(random, PLACES)];
  if (*block == NULL) {
    *block = place(NULL, size_by_chance(random));
  } else if (random_below(random, 4) == 0) {
    *block = place(*block, size_by_chance(random));
  } else {
    hak_free(*block);
    *block = NULL;
  }
}

static void free_all(void *held[HELD]) {
  for (int i = 0; i < HELD; i++) hak_free(held[i]);
  memset(held, 0, HELD * sizeof held[0]);
}

/* --- the tests -------------------------------------------------------------------------------------------------- */

static void assert_same(const struct held_by *model, size_t *saved) {
  static struct held_by told;
  look(&told, held_at_peak);
  for (size_t i = 0; i < told.count; i++) {
    /* It was not there at the peak. */
    struct held right = i < model->count ? model->stacks[i] : (struct held){0};
    assert_memory_equal(&told.stacks[i], &right, sizeof right);
    *saved += right.bytes != 0;
  }
}

/* A call may come to more than one event: a block that moves is a new one before the old one is freed, and the highest of them is the peak. Then the
 * model cannot know it, and waits for the next one. */
static void each_stack_keeps_what_it_had_at_the_peak(void **state) {
  (void)state;
  enum { STEPS = 20000 };
  static struct held_by model;
  static void *held[HELD];
  uint64_t random = 5, number = figure(&samples.peak.number);
  size_t peaks = 0, saved = 0;
  bool known = false;
  for (int i = 0; i < STEPS; i++) {
    step(held, &random);
    assert_true(figure(&samples.live_bytes) <= figure(&samples.peak.bytes));
    if (figure(&samples.peak.number) != number) {
      number = figure(&samples.peak.number);
      known = figure(&samples.live_bytes) == figure(&samples.peak.bytes);
      look(&model, lives_at);
      peaks++;
    }
    if (known) assert_same(&model, &saved);
    if (i % 16 == 0) assert_sums_agree();
  }
  free_all(held);
  if (known) assert_same(&model, &saved);
  assert_sums_agree();
  assert_true(peaks > 20 && saved > STEPS);
}

/* Without a realloc that moves: what grows where it is counts as grown. */
static void blocks_that_grow_in_place_count(void **state) {
  (void)state;
  uint64_t random = 3, before = figure(&samples.peak.bytes);
  char *block = place_0(NULL, 80 * MIB);
  assert_true(figure(&samples.peak.bytes) > before);
  assert_sums_agree();
  for (size_t size = 80 * MIB; size < 110 * MIB; size += 1 + random_below(&random, 10 * MIB)) {
    before = figure(&samples.peak.bytes);
    block = place_1(block, size + 10 * MIB);
    assert_true(figure(&samples.peak.bytes) > before);
    assert_sums_agree();
  }
  before = figure(&samples.peak.number);
  block = place_2(block, 40 * MIB);
  assert_int_equal(figure(&samples.peak.number), before);
  hak_free(block);
  assert_int_equal(figure(&samples.peak.number), before);
  assert_sums_agree();
}

enum { THREADS = 4 };

static void *work(void *seed) {
  static _Thread_local void *held[HELD];
  uint64_t random = (uintptr_t)seed;
  for (int i = 0; i < 5000; i++) step(held, &random);
  free_all(held);
  return NULL;
}

static void threads_agree_on_the_peak(void **state) {
  (void)state;
  pthread_t ids[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&ids[i], NULL, work, (void *)(i + 1)), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  assert_sums_agree();
}

/* Its samples are its parent's, and so is the peak, until it has a higher one. */
static void a_child_goes_on_with_its_parents_peak(void **state) {
  (void)state;
  void *block = place_3(NULL, 140 * MIB);
  hak_free(block);
  uint64_t number = figure(&samples.peak.number), bytes = figure(&samples.peak.bytes);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    uint64_t own = figure(&samples.peak.bytes);
    hak_free(place_4(NULL, 1000));
    assert_sums_agree();
    if (own != bytes || figure(&samples.peak.bytes) != bytes) _exit(1);
    hak_free(place_5(NULL, 160 * MIB));
    assert_sums_agree();
    _exit(figure(&samples.peak.bytes) > bytes ? 0 : 2);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(figure(&samples.peak.number), number);
  assert_sums_agree();
}

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  atomic_store(&samples.rate, 1);
  malloc_thread.sample_left = malloc_thread.sample_rest = 0;
  hak_free(hak_malloc(1));
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_stack_keeps_what_it_had_at_the_peak),
      cmocka_unit_test(threads_agree_on_the_peak),
      cmocka_unit_test(blocks_that_grow_in_place_count),
      cmocka_unit_test(a_child_goes_on_with_its_parents_peak),
  };
  return cmocka_run_group_tests_name("peak", tests, start, NULL);
}
