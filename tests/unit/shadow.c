/* shadow.c - a random program against a model of it.
 *
 * Every thread keeps a list of what it believes to be its live blocks, in order of address, and
 * writes every usable byte of each. A block that overlaps another, lies outside of the allocator, is
 * damaged, misaligned, not zeroed or too small stops the test, with the seed that repeats it. Threads
 * pass blocks to each other, so that blocks are freed and resized far from where they were made.
 *
 * Usage: shadow [seed [operations]], or HAKMEM_TEST_SEED; without either, a row of fixed seeds.
 */
#include "blocks.h"
#include "hakmem.h"

#include <errno.h>
#include <pthread.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { OPERATIONS = 30000 };
#else
enum { OPERATIONS = 150000 };
#endif
enum { THREADS = 3, MOST_LIVE = 2500, MAILBOX = 32 };

struct live {
  unsigned char *base;
  size_t usable;    /* all filled, under `id` */
  size_t requested; /* what a sized free has to say */
  size_t alignment; /* 0: not from an aligned call */
  uint64_t id;
};

struct thread {
  pthread_t handle;
  int number;
  uint64_t seed;
  uint64_t random;
  long operations;
  long step; /* for the message of a failure */
  size_t count;
  struct live blocks[MOST_LIVE]; /* by ascending base */
};

static struct thread threads[THREADS];
static pthread_mutex_t mailbox_lock = PTHREAD_MUTEX_INITIALIZER;
static struct live mailbox[MAILBOX];
static size_t mailbox_count;

static _Noreturn void fail(const struct thread *t, const char *what, const struct live *block) {
  fprintf(stderr, "shadow: seed %llu, thread %d, operation %ld: %s", (unsigned long long)t->seed,
          t->number, t->step, what);
  if (block != NULL)
    fprintf(stderr, " (block %p, requested %zu, usable %zu, alignment %zu)", (void *)block->base,
            block->requested, block->usable, block->alignment);
  fprintf(stderr, "\nrepeat with: shadow %llu %ld\n", (unsigned long long)t->seed, t->operations);
  exit(1);
}

static uint64_t draw(struct thread *t) {
  uint64_t z = (t->random += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint64_t below(struct thread *t, uint64_t limit) { return draw(t) % limit; }

/* Heavy-tailed from 0 to 8 MiB: each doubling 0.7 times as likely as the one before, so that every
 * tier gets about the same number of bytes. */
static size_t draw_size(struct thread *t) {
  unsigned doubling = 0;
  while (doubling < 19 && below(t, 10) < 7) doubling++;
  size_t top = (size_t)16 << doubling;
  switch (below(t, 16)) {
  case 0:
    return top; /* the edges of classes and tiers */
  case 1:
    return top - 1;
  case 2:
    return doubling < 19 ? top + 1 : top;
  case 3:
    return doubling == 0 ? 0 : top * 3 / 4;
  default:
    return top / 2 + below(t, top / 2 + 1);
  }
}

static size_t draw_alignment(struct thread *t) {
  return below(t, 50) == 0 ? (size_t)1 << (13 + below(t, 10)) : (size_t)1 << (3 + below(t, 10));
}

/* First block whose base is above `base`. */
static size_t position_above(const struct thread *t, const unsigned char *base) {
  size_t low = 0, high = t->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (t->blocks[middle].base > base) high = middle;
    else low = middle + 1;
  }
  return low;
}

static void insert(struct thread *t, struct live block) {
  size_t at = position_above(t, block.base);
  if (at > 0 && t->blocks[at - 1].base + t->blocks[at - 1].usable > block.base)
    fail(t, "overlaps the block below it", &block);
  if (at < t->count && block.base + block.usable > t->blocks[at].base)
    fail(t, "overlaps the block above it", &block);
  memmove(&t->blocks[at + 1], &t->blocks[at], (t->count - at) * sizeof t->blocks[0]);
  t->blocks[at] = block;
  t->count++;
}

static struct live take_out(struct thread *t, size_t at) {
  struct live block = t->blocks[at];
  t->count--;
  memmove(&t->blocks[at], &t->blocks[at + 1], (t->count - at) * sizeof t->blocks[0]);
  return block;
}

static void check_filled(const struct thread *t, const struct live *block, size_t bytes) {
  if (!block_is_filled(block->base, bytes, block->id))
    fail(t, "a live block's bytes have changed", block);
}

/* What holds for every block that has just come. */
static void admit(struct thread *t, struct live *block) {
  if (block->base == NULL) fail(t, "no memory", block);
  block->usable = hak_usable_size(block->base);
  if (block->usable < block->requested) fail(t, "usable size is below the requested one", block);
  if (!is_aligned(block->base, block->alignment > 16 ? block->alignment : 16))
    fail(t, "misaligned", block);
  if (!hak_owns(block->base)) fail(t, "hak_owns does not know it", block);
  block->id = draw(t);
  fill_block(block->base, block->usable, block->id);
  insert(t, *block);
}

static void allocate(struct thread *t) {
  struct live block = {.requested = draw_size(t)};
  size_t n = block.requested;
  void *out = NULL;
  switch (below(t, 8)) {
  case 0:
    block.base = hak_calloc(1, n);
    if (block.base != NULL && !block_is_zero(block.base, n))
      fail(t, "calloc's block is not zero", &block);
    break;
  case 1:
    block.requested = n = n / 24 * 24;
    block.base = hak_calloc(n / 24, 24);
    if (block.base != NULL && !block_is_zero(block.base, n))
      fail(t, "calloc's block is not zero", &block);
    break;
  case 2:
    block.alignment = draw_alignment(t);
    block.base = hak_aligned_alloc(block.alignment, n);
    break;
  case 3:
    block.alignment = draw_alignment(t);
    if (hak_posix_memalign(&out, block.alignment, n) == 0) block.base = out;
    break;
  case 4:
    block.base = hak_realloc(NULL, n);
    break;
  default:
    block.base = hak_malloc(n);
  }
  admit(t, &block);
}

static void release(struct thread *t, struct live block) {
  check_filled(t, &block, block.usable);
  errno = 1234;
  switch (below(t, 3)) {
  case 0:
    if (block.alignment != 0) hak_free_aligned_sized(block.base, block.alignment, block.requested);
    else hak_free_sized(block.base, block.requested);
    break;
  default:
    hak_free(block.base);
  }
  if (errno != 1234) fail(t, "free changed errno", &block);
}

static void resize(struct thread *t, struct live block) {
  struct live resized = {.requested = draw_size(t)};
  check_filled(t, &block, block.usable);
  if (resized.requested == 0 && below(t, 2) == 0) resized.requested = 1;
  if (below(t, 2) == 0) resized.base = hak_realloc(block.base, resized.requested);
  else resized.base = hak_reallocarray(block.base, 1, resized.requested);
  if (resized.requested == 0) {
    if (resized.base != NULL) fail(t, "realloc to zero gave a block", &block);
    return;
  }
  if (resized.base == NULL) fail(t, "no memory", &resized);
  size_t kept = block.usable < resized.requested ? block.usable : resized.requested;
  if (!block_is_filled(resized.base, kept, block.id)) fail(t, "realloc lost bytes", &block);
  admit(t, &resized);
}

/* Leaves a block for the other threads and takes one of theirs. */
static void exchange(struct thread *t) {
  struct live mine = {0}, theirs = {0};
  if (t->count > 0) mine = take_out(t, below(t, t->count));
  pthread_mutex_lock(&mailbox_lock);
  if (mailbox_count > 0 && (mailbox_count == MAILBOX || below(t, 2) == 0))
    theirs = mailbox[--mailbox_count];
  if (mine.base != NULL && mailbox_count < MAILBOX) {
    mailbox[mailbox_count++] = mine;
    mine.base = NULL;
  }
  pthread_mutex_unlock(&mailbox_lock);
  if (mine.base != NULL) insert(t, mine);
  if (theirs.base == NULL) return;
  check_filled(t, &theirs, theirs.usable);
  if (t->count < MOST_LIVE - 1) insert(t, theirs);
  else release(t, theirs);
}

static void *run(void *argument) {
  struct thread *t = argument;
  uint64_t allocations = 0;
  for (t->step = 0; t->step < t->operations; t->step++) {
    /* Tides: what grows the heap for a while, then shrinks it, so that slabs fill and empty. */
    if (t->step % 4096 == 0) allocations = below(t, 2) == 0 ? 60 : 30;
    if (below(t, 8192) == 0) hak_purge();
    uint64_t action = below(t, 100);
    if (t->count < 4 || (action < allocations && t->count < MOST_LIVE - 2)) allocate(t);
    else if (action < 80) release(t, take_out(t, below(t, t->count)));
    else if (action < 97) resize(t, take_out(t, below(t, t->count)));
    else exchange(t);
  }
  /* Whatever was damaged since is found here at the latest. */
  while (t->count > 0) release(t, take_out(t, t->count - 1));
  return NULL;
}

/* With HAKMEM_TINY_HEAP_STATS=1: whatever ways the blocks took, each was counted once when it came and once
 * when it went. */
static void check_counts(const struct thread *t) {
  struct hak_class_stats stats = {.size = sizeof stats};
  uint64_t blocks = 0;
  for (unsigned c = 0; hak_class_stats_get(c, &stats) == 0; c++) {
    if (stats.alloc != stats.free) fail(t, "a class has other counts of malloc than of free", NULL);
    blocks += stats.alloc;
  }
  if ((blocks != 0) != (stats.counting != 0)) fail(t, "the classes count, or not, unasked", NULL);
}

static void run_all(uint64_t seed, long operations) {
  for (int i = 0; i < THREADS; i++) {
    struct thread *t = &threads[i];
    t->number = i;
    t->seed = seed;
    t->random = seed * THREADS + (uint64_t)i;
    t->operations = operations;
    t->count = 0;
    if (pthread_create(&t->handle, NULL, run, t) != 0) abort();
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i].handle, NULL);
  while (mailbox_count > 0) release(&threads[0], mailbox[--mailbox_count]);
  check_counts(&threads[0]);
}

int main(int argc, char **argv) {
  const char *given = argc > 1 ? argv[1] : getenv("HAKMEM_TEST_SEED");
  long operations = argc > 2 ? atol(argv[2]) : OPERATIONS;
  if (given != NULL) {
    run_all(strtoull(given, NULL, 0), operations);
    printf("seed %s: passed\n", given);
    return 0;
  }
  for (uint64_t seed = 1; seed <= 3; seed++) run_all(seed, operations);
  printf("seeds 1 to 3, %d threads, %ld operations each: passed\n", THREADS, operations);
  return 0;
}
