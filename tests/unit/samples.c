/* samples.c - the sampler: estimates are those of all blocks, whatever a program does with them; a sample is an ordinary
 * block to the program. Without arguments all of it, with `child` what must end the program. */
#include "child.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>

#include "front/block.h"
#include "heap/samples.h"
#include "heap/slabs.h"
#include "policy/options.h"
#include "sample/chance.h"
#include "sample/records.h"
#include "sample/sample.h"

/* --- arithmetic ------------------------------------------------------------------------------ */

static void numbers_are_exponential(void **state) {
  (void)state;
  enum { DRAWS = 1000000, BINS = 8 };
  const int64_t mean = 1 << 21;
  uint64_t random = 1;
  unsigned below[BINS] = {0};
  double sum = 0;
  for (int i = 0; i < DRAWS; i++) {
    double drawn = (double)chance_exponential(&random, mean) / (double)mean;
    assert_true(drawn >= 0 && drawn <= 37);
    sum += drawn;
    for (int b = 0; b < BINS; b++) below[b] += drawn < ldexp(1, b - 5);
  }
  assert_true(fabs(sum / DRAWS - 1) < 0.005);
  for (int b = 0; b < BINS; b++) {
    double p = 1 - exp(-ldexp(1, b - 5));
    /* five standard deviations */
    assert_true(fabs((double)below[b] / DRAWS - p) < 5 * sqrt(p * (1 - p) / DRAWS));
  }
}

static void weights_are_what_the_formula_says(void **state) {
  (void)state;
  const int64_t rates[] = {1, 100, 4096, 1 << 19, 1 << 21, 1 << 30};
  for (int r = 0; r < 6; r++)
    for (uint64_t size = 1; size < UINT64_C(1) << 46; size += size / 3 + 1) {
      double right = (double)size / -expm1(-(double)size / (double)rates[r]);
      assert_true(fabs((double)chance_weight(size, (double)size / (double)rates[r]) - right) <=
                  0.5 + right * 1e-6);
    }
}

#if !HAK_FAST /* which has no sampler */

static uint64_t figure(const _Atomic uint64_t *of) { return atomic_load(of); }

static void set_left(int64_t bytes) {
  malloc_thread.sample_left = bytes;
  malloc_thread.sample_rest = 0;
}

/* From here on, in this thread too: the next block is a sample, and draws with it. */
static void set_rate(int64_t rate) {
  atomic_store(&samples.rate, rate);
  set_left(0);
  hak_free(hak_malloc(1));
}

struct sums {
  uint64_t allocated_samples, allocated_blocks, allocated_bytes, freed_samples, freed_blocks,
      freed_bytes;
};

/* Of all stacks, as a tool adds them up. */
static struct sums sums(void) {
  struct sums all = {0};
  enum { WORDS = SAMPLE_STACK_CHUNK_BYTES / 8 };
  for (uint32_t at = 1, end = atomic_load(&samples.stacks_end); at < end;) {
    const struct sample_stack *stack = stack_at(at);
    if (at % WORDS + sizeof *stack / 8 > WORDS || stack->hash == 0) {
      at = (at / WORDS + 1) * WORDS;
      continue;
    }
    all.allocated_samples += figure(&stack->allocated.samples);
    all.allocated_blocks += figure(&stack->allocated.blocks);
    all.allocated_bytes += figure(&stack->allocated.bytes);
    all.freed_samples += figure(&stack->freed.samples);
    all.freed_blocks += figure(&stack->freed.blocks);
    all.freed_bytes += figure(&stack->freed.bytes);
    at += (uint32_t)(sizeof *stack / 8) + stack->depth;
  }
  return all;
}

/* --- estimates ------------------------------------------------------------------------------- */

enum { RATE = 16 * 1024 };

/* Is an estimate made of so many samples right, but for five standard deviations and a half percent? */
static void assert_near(uint64_t estimate, double truth, uint64_t count) {
  double off = fabs((double)estimate / truth - 1), bound = 5 / sqrt((double)count) + 0.005;
  if (off > bound)
    fprintf(stderr, "%llu for %.0f, of %llu samples\n", (unsigned long long)estimate, truth,
            (unsigned long long)count);
  assert_true(off <= bound);
}

static void one_block_for_ever_is_sampled_at_its_rate(void **state) {
  (void)state;
  const size_t sizes[] = {24, 1000, 5000, 40000, 300000};
  const int rounds[] = {2000000, 200000, 40000, 20000, 3000};
  for (int s = 0; s < 5; s++) {
    struct sums before = sums();
    for (int i = 0; i < rounds[s]; i++) hak_free(hak_malloc(sizes[s]));
    struct sums after = sums();
    uint64_t count = after.allocated_samples - before.allocated_samples;
    assert_true(count > 100);
    assert_near(after.allocated_bytes - before.allocated_bytes, (double)sizes[s] * rounds[s],
                count);
    assert_near((after.allocated_blocks - before.allocated_blocks) / 1024, rounds[s], count);
    assert_int_equal(after.freed_bytes - before.freed_bytes,
                     after.allocated_bytes - before.allocated_bytes);
  }
}

enum { BLOCKS = 200000 };
static void *blocks[BLOCKS];

static void what_lives_is_estimated(void **state) {
  (void)state;
  uint64_t random = 7;
  double bytes = 0, half = 0;
  struct sums before = sums();
  uint64_t live_before = figure(&samples.live);
  for (int i = 0; i < BLOCKS; i++) {
    size_t size = random_below(&random, 100) == 0 ? 2000 + random_below(&random, 60000)
                                                  : 1 + random_below(&random, 1000);
    blocks[i] = i % 3 == 0   ? hak_calloc(1, size)
                : i % 3 == 1 ? hak_aligned_alloc(64, size)
                             : hak_malloc(size);
    assert_non_null(blocks[i]);
    bytes += (double)size;
    half += i % 2 ? (double)size : 0;
  }
  struct sums full = sums();
  uint64_t count = full.allocated_samples - before.allocated_samples;
  assert_near(full.allocated_bytes - before.allocated_bytes, bytes, count);
  assert_int_equal(figure(&samples.live) - live_before, count);
  for (int i = 0; i < BLOCKS; i += 2) hak_free(blocks[i]);
  struct sums now = sums();
  uint64_t live =
      (now.allocated_bytes - before.allocated_bytes) - (now.freed_bytes - before.freed_bytes);
  assert_near(live, half, count / 2);
  for (int i = 1; i < BLOCKS; i += 2) hak_free(blocks[i]);
  now = sums();
  assert_int_equal(now.allocated_bytes - before.allocated_bytes,
                   now.freed_bytes - before.freed_bytes);
  assert_int_equal(figure(&samples.live), live_before);
}

/* --- a sample is an ordinary block ------------------------------------------------------------ */

/* One that is a sample: the next allocation is due. */
static void *sample_of(size_t alignment, size_t size) {
  set_left(0);
  void *block = alignment > 16 ? hak_aligned_alloc(alignment, size) : hak_malloc(size);
  assert_non_null(block);
  return block;
}

static bool is_sample(const void *block) { return record_find((uintptr_t)block) != NULL; }

/* None that a larger class lends (docs/decisions/0013), which happens where the helper has emptied the bin of this one. */
static void *own_block_of(size_t alignment, size_t size, size_t usable) {
  void *lent[256], *block;
  unsigned count = 0;
  for (;;) {
    block = alignment > 16 ? hak_aligned_alloc(alignment, size) : hak_malloc(size);
    assert_false(is_sample(block));
    if (hak_usable_size(block) <= usable || count == 256) break;
    lent[count++] = block; /* kept, so that it is not lent again */
  }
  while (count > 0) hak_free(lent[--count]);
  return block;
}

static void samples_look_like_other_blocks(void **state) {
  (void)state;
  const size_t sizes[] = {1,    16,    17,    100,   1000,    4096,   4097,
                          9000, 30000, 65536, 65537, 1000000, 5000000};
  for (int s = 0; s < 13; s++)
    for (size_t alignment = 16; alignment <= 8192; alignment *= 8) {
      unsigned char *block = sample_of(alignment, sizes[s]), *other;
      assert_true(is_sample(block));
      assert_int_equal((uintptr_t)block % alignment, 0);
      assert_true(hak_owns(block));
      set_left(INT32_MAX);
      other = own_block_of(alignment, sizes[s], hak_usable_size(block));
      assert_int_equal(hak_usable_size(block), hak_usable_size(other));
      memset(block, 0xa5, hak_usable_size(block));
      hak_free(other);
      hak_free(block);
      assert_false(is_sample(block));
    }
}

static void calloc_of_a_sample_is_zeros(void **state) {
  (void)state;
  for (size_t size = 1; size < 3000000; size += size + 7)
    for (int round = 0; round < 3; round++) {
      set_left(0);
      unsigned char *block = hak_calloc(1, size);
      assert_true(is_sample(block));
      size_t zeros = 0;
      while (zeros < size && block[zeros] == 0) zeros++;
      assert_int_equal(zeros, size);
      memset(block, 0xff, size);
      hak_free(block);
    }
}

/* What stays in place keeps its record, what moves is another block to the sampler. */
static void realloc_keeps_bytes_and_records(void **state) {
  (void)state;
  for (size_t size = 10; size < 6000000; size = size * 3 / 2 + 1)
    for (size_t to = 10; to < 6000000; to = to * 5 / 2 + 1) {
      unsigned char *block = sample_of(16, size);
      size_t kept = size < to ? size : to;
      memset(block, 0x3c, size);
      set_left(INT32_MAX);
      unsigned char *moved = hak_realloc(block, to);
      assert_non_null(moved);
      assert_true(hak_usable_size(moved) >= to);
      for (size_t i = 0; i < kept; i += kept / 50 + 1) assert_int_equal(moved[i], 0x3c);
      if (moved != block) assert_false(is_sample(block));
      set_left(0);
      moved = hak_realloc(moved, 1);
      hak_free(moved);
      assert_false(is_sample(moved));
    }
}

/* A block that grows by little at a time gets more room than it asks for; what is kept is what it asked for. */
static void what_was_asked_for_is_kept(void **state) {
  (void)state;
  for (size_t size = 1000; size < 500000; size += size / 3) {
    unsigned char *block = hak_malloc(size);
    size_t asked = hak_usable_size(block) + 100; /* has to move */
    uint64_t before = figure(&samples.samples);
    set_left(0);
    block = hak_realloc(block, asked);
    assert_int_equal(figure(&samples.samples), before + 1);
    struct sample_record *record = record_find((uintptr_t)block);
    assert_non_null(record);
    assert_int_equal(figure(&record->size), asked);
    hak_free(block);
  }
}

/* A thread that is to leave the fast path before it is due: the sample comes where it would have come. */
static void a_call_before_changes_no_sample(void **state) {
  (void)state;
  enum { LEFT = 1000 * 1000, BLOCK = 1000, SOON = 10 * 1000 };
  set_rate(LEFT);
  set_left(LEFT);
  for (int left = LEFT; left >= 0; left -= BLOCK) {
    assert_int_equal(malloc_thread.sample_left + malloc_thread.sample_rest, left);
    if (left % (7 * BLOCK) == 0) heap_call_soon(SOON);
    assert_true(left % (7 * BLOCK) != 0 || malloc_thread.sample_left <= SOON);
    void *block = hak_malloc(BLOCK);
    assert_int_equal(is_sample(block), left == 0);
    hak_free(block);
  }
  set_rate(0);
}

/* A block that grows gets room, which only a sample does without. */
static void a_call_before_takes_no_room(void **state) {
  (void)state;
  enum { LEFT = 1000 * 1000, SIZE = 12 * 1024, GROWN = 20 * 1024 };
  set_rate(LEFT);
  set_left(LEFT);
  void *block = hak_malloc(SIZE);
  heap_call_soon(1);
  block = hak_realloc(block, GROWN);
  assert_false(is_sample(block));
  assert_in_range(hak_usable_size(block), 32 * 1024, 64 * 1024);
  hak_free(block);
  set_rate(0);
}

/* Nothing can be had of such a size, nor does it disturb the count of a thread that a tool has asked something. */
static void impossible_sizes_leave_the_count_alone(void **state) {
  (void)state;
  const size_t sizes[] = {PTRDIFF_MAX, PTRDIFF_MAX / 2, PTRDIFF_MAX / 4 + 1, SIZE_MAX};
  for (int s = 0; s < 4; s++) {
    set_left(SAMPLE_LEFT_REQUESTED);
    assert_null(hak_malloc(sizes[s]));
    assert_null(hak_calloc(1, sizes[s]));
    assert_null(hak_aligned_alloc(64, sizes[s]));
    assert_true(malloc_thread.sample_left == SAMPLE_LEFT_REQUESTED);
  }
  set_left(0);
}

/* A block that grows in place is a sample with the probability of its size, in however many steps it got there. */
static void huge_blocks_that_grow_are_samples_by_their_size(void **state) {
  (void)state;
  enum { BLOCKS_IN_TURN = 300, STEPS = 20 };
  const size_t first = 2 * MIB, step = 300000, last = first + STEPS * step;
  const int64_t rate = 8 * (int64_t)MIB;
  set_rate(rate);
  uint64_t live_before = figure(&samples.live), bytes = 0, count = 0;
  struct sums before = sums();
  uint64_t bytes_before = before.allocated_bytes - before.freed_bytes;
  for (int i = 0; i < BLOCKS_IN_TURN; i++) {
    char *block = hak_malloc(first);
    for (int s = 1; s <= STEPS; s++) {
      block = hak_realloc(block, first + (size_t)s * step);
      assert_non_null(block);
    }
    struct sums now = sums();
    bytes += now.allocated_bytes - now.freed_bytes - bytes_before;
    count += figure(&samples.live) - live_before;
    hak_free(block);
    assert_int_equal(figure(&samples.live), live_before);
  }
  double p = 1 - exp(-(double)last / (double)rate);
  assert_true(fabs((double)count - BLOCKS_IN_TURN * p) < 5 * sqrt(BLOCKS_IN_TURN * p * (1 - p)));
  assert_near(bytes, (double)last * BLOCKS_IN_TURN, count);
  set_rate(RATE);
}

/* --- how often --------------------------------------------------------------------------------- */

static uint64_t weight_of_next_sample(void) {
  void *block = sample_of(16, 1);
  uint64_t weight = figure(&record_find((uintptr_t)block)->weight);
  hak_free(block);
  return weight;
}

/* The options count again, not a tool's rate. */
static void limit_samples(uint64_t rate, uint64_t most) {
  SET_OPTION(PROF_RATE, (int32_t)rate);
  SET_OPTION(PROF_MOST, (int32_t)most);
  atomic_store(&samples.rate, 0);
  weight_of_next_sample(); /* draws with the options */
}

static void limit_no_longer(void) {
  SET_OPTION(PROF_MOST, 0);
  atomic_store(&samples.rate, RATE);
  weight_of_next_sample();
}

/* Less often from a thread that allocates much, with the right weights, and as before once it allocates little. */
static void samples_a_second_are_limited(void **state) {
  (void)state;
  enum { SIZE = 2048, AT_ONCE = 10000 };
  const uint64_t most = 2000, rate = 8 * MIB;
  limit_samples(rate, most);
  struct sums before = sums(), last = before;
  uint64_t start = os_clock_ms(), passed = 0, freed = 0;
  double squares = 0; /* of the weights */
  for (; passed < 400; passed = os_clock_ms() - start, freed += AT_ONCE) {
    for (int i = 0; i < AT_ONCE; i++) hak_free(hak_malloc(SIZE));
    struct sums now = sums();
    double bytes = (double)(now.allocated_bytes - last.allocated_bytes);
    if (bytes > 0)
      squares += bytes * bytes / (double)(now.allocated_samples - last.allocated_samples);
    last = now;
  }
  uint64_t taken = last.allocated_samples - before.allocated_samples;
  assert_true(taken <= most * passed / 1000 * 3 / 2 + 50);
  /* Weights differ by the rates: so many of one weight would be as exact. */
  double total = (double)(last.allocated_bytes - before.allocated_bytes);
  double alike = squares > 0 ? total * total / squares : 0;
  assert_near((uint64_t)total, (double)freed * SIZE, (uint64_t)alike);
  /* After the first there is one sample in 50 ms: none in a window. */
  for (int i = 0; i < 3; i++) {
    usleep(50000);
    weight_of_next_sample();
  }
  uint64_t weight = weight_of_next_sample();
  assert_true(weight == rate || weight == rate + 1); /* rounded */
  limit_no_longer();
}

static void *allocate_shortly(void *unused) {
  (void)unused;
  for (int i = 0; i < 20000; i++) hak_free(hak_malloc(2048));
  return NULL;
}

/* Each would take its first samples without a limit, if it did not go on where the last one was. */
static void threads_one_after_the_other_share_the_limit(void **state) {
  (void)state;
  const uint64_t most = 2000;
  const int64_t rate =
      16 * MIB; /* 64 times as much, the limit's own limit, is more than any machine gets through */
  limit_samples(rate, most);
  struct sums before = sums();
  uint64_t start = os_clock_ms(), passed = 0, threads = 0;
  for (; passed < 400; passed = os_clock_ms() - start, threads++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate_shortly, NULL), 0);
    pthread_join(thread, NULL);
  }
  struct sums after = sums();
  uint64_t taken = after.allocated_samples - before.allocated_samples;
  uint64_t unlimited = threads * 20000 * 2048 / (uint64_t)rate;
  print_message("%llu threads took %llu samples of %llu\n", (unsigned long long)threads,
                (unsigned long long)taken, (unsigned long long)unlimited);
  assert_true(taken <= most * passed / 1000 * 3 / 2 + 100);
  limit_no_longer();
}

/* --- all at once ------------------------------------------------------------------------------- */

enum { THREADS = 3, SHARED = 512, ROUNDS = 15000 * MEETINGS };
static _Atomic(unsigned char *) shared[SHARED];
static atomic_bool forks_to_come;

static void *exchange(void *seed) {
  uint64_t random = (uintptr_t)seed;
  for (int i = 0; i < ROUNDS || atomic_load(&forks_to_come); i++) {
    size_t size = 1 + random_below(&random, random_below(&random, 500) == 0 ? 200000 : 2000);
    unsigned char *block = hak_malloc(size);
    if (block == NULL) return seed;
    block[0] = block[size - 1] = 1;
    block = atomic_exchange(&shared[random_below(&random, SHARED)], block);
    if (random_below(&random, 8) == 0) block = hak_realloc(block, 1 + random_below(&random, 5000));
    hak_free(block);
  }
  return NULL;
}

static void free_all_shared(void) {
  for (int i = 0; i < SHARED; i++) hak_free(atomic_exchange(&shared[i], NULL));
}

/* Threads free each other's samples while another forks; a child frees all it has. None ends before: a child's ThreadSanitizer finds a leak then. */
static void threads_and_forks_lose_no_record(void **state) {
  (void)state;
  pthread_t ids[THREADS];
  uint64_t live_before = figure(&samples.live);
  atomic_store(&forks_to_come, true);
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&ids[i], NULL, exchange, (void *)(i + 1)), 0);
  for (int forks = 0; forks < 10; forks++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      alarm(60);
      atomic_store(&forks_to_come, false);
      free_all_shared();
      for (int i = 0; i < 20000; i++) hak_free(hak_malloc((size_t)i));
      _exit(exchange((void *)9) != NULL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  atomic_store(&forks_to_come, false);
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(ids[i], &failed);
    assert_null(failed);
  }
  free_all_shared();
  assert_int_equal(figure(&samples.live), live_before);
}

static void free_twice(void) {
  void *block = sample_of(16, 100), *volatile again = block;
  hak_free(block);
  hak_free(again);
}

static void free_inside(void) {
  char *volatile block = sample_of(16, 100);
  hak_free(block + 16);
}

static void wrong_frees_of_samples_are_told(void **state) {
  (void)state;
  /* Another sample keeps the slab: else the pointer leads to nothing of ours. */
  void *neighbour = sample_of(16, 100);
  child_ends_with(free_twice, "double free");
  child_ends_with(free_inside, "middle");
  hak_free(neighbour);
}

#if HAK_HARDENED

/* As other blocks of their size. */
enum { CLEARED = 100, OTHERS = 500 };

static void write_into_freed(void) {
  unsigned char *volatile block = sample_of(16, CLEARED);
  hak_free(block);
  block[CLEARED / 2] = 1;
  for (int i = 0; i < OTHERS; i++) sample_of(16, CLEARED);
}

static void freed_samples_are_cleared_and_looked_at(void **state) {
  (void)state;
  static unsigned char *others[OTHERS];
  set_rate(-1);
  for (int i = 0; i < OTHERS; i++) others[i] = memset(hak_malloc(1000), 'S', 1000);
  for (int i = 0; i < OTHERS; i++) hak_free(others[i]);
  slabs_drain_bins(cache_of_thread());
  set_rate(1);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < OTHERS; i++) {
      others[i] = sample_of(16, CLEARED);
      for (int at = 0; at < CLEARED; at++) assert_int_equal(others[i][at], 0);
      memset(others[i], 'S', CLEARED);
    }
    for (int i = 0; i < OTHERS; i++) hak_free(others[i]);
  }
  child_ends_with(write_into_freed, "written to after");
}

#endif

/* In a child of a fork that came while another thread wrote the records. */
static void samples_without_records_are_freed_by_their_size(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 100, 1000, 3000, 40000};
  void *sized[5];
  for (int i = 0; i < 5; i++) sized[i] = sample_of(16, sizes[i]);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    heap_samples_lost = true;
    for (int i = 0; i < 5; i++) hak_free_sized(sized[i], sizes[i]);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  for (int i = 0; i < 5; i++) hak_free_sized(sized[i], sizes[i]);
}

static void nothing_is_sampled_when_it_is_off(void **state) {
  (void)state;
  set_rate(-1);
  uint64_t before = figure(&samples.samples);
  for (int i = 0; i < 100000; i++) hak_free(hak_malloc(5000));
  assert_int_equal(figure(&samples.samples), before);
  set_rate(RATE);
  for (int i = 0; i < 10000; i++) hak_free(hak_malloc(5000));
  assert_true(figure(&samples.samples) > before);
}

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  set_rate(RATE);
  return 0;
}

#define START start
#else
#define START NULL
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_are_exponential),
    cmocka_unit_test(weights_are_what_the_formula_says),
#if !HAK_FAST
    cmocka_unit_test(one_block_for_ever_is_sampled_at_its_rate),
    cmocka_unit_test(what_lives_is_estimated),
    cmocka_unit_test(samples_look_like_other_blocks),
    cmocka_unit_test(calloc_of_a_sample_is_zeros),
    cmocka_unit_test(realloc_keeps_bytes_and_records),
    cmocka_unit_test(what_was_asked_for_is_kept),
    cmocka_unit_test(a_call_before_changes_no_sample),
    cmocka_unit_test(a_call_before_takes_no_room),
    cmocka_unit_test(impossible_sizes_leave_the_count_alone),
    cmocka_unit_test(huge_blocks_that_grow_are_samples_by_their_size),
    cmocka_unit_test(samples_a_second_are_limited),
    cmocka_unit_test(threads_one_after_the_other_share_the_limit),
    cmocka_unit_test(wrong_frees_of_samples_are_told),
#if HAK_HARDENED
    cmocka_unit_test(freed_samples_are_cleared_and_looked_at),
#endif
    cmocka_unit_test(samples_without_records_are_freed_by_their_size),
    cmocka_unit_test(nothing_is_sampled_when_it_is_off),
    cmocka_unit_test(threads_and_forks_lose_no_record),
#endif
  };
  return cmocka_run_group_tests_name("samples", tests, START, NULL);
}
