/* replay.c - does the allocations of a recorded program again: the same threads, sizes, alignments and
 * order between threads, and the same pages touched. Nothing else that the program did.
 *
 * It reads a plan, which `hakmem-lab replay` makes from a trace (lab/hakmem_lab/trace/replay_plan.py has the
 * layout and says why this cannot hang): for each thread, records of 16 bytes. They are read into a buffer
 * of fixed size, so that the plan is no part of the memory measured; blocks are found by their slot in one
 * mapped table.
 *
 * A block's first eight bytes hold its slot's number, which is looked at when it is given up, and those of
 * calloc have to be 0: an allocator that hands a block out twice, or a dirty one, fails with exit code 1.
 *
 * An operation is a call of the allocator. With --dry there are no calls and no blocks: what remains is
 * what reading the plan, the slots and the waiting take.
 *
 * Order between threads (slots and windows; LEAD is 1):
 *  - Slots hold NULL or a block. A thread frees a block of another one when it finds it in the slot, which
 *    it reads with acquire; it was stored with release. So the block's content is there too.
 *  - A slot is emptied with a relaxed store. Its next user is the same thread, or one that is at least two
 *    windows further: it has read `done` with acquire after this thread left its window.
 *  - Leaving a window counts its `left` down; who brings it to 0 moves `done` on. Two threads may leave w and
 *    w + 1 at the same time, and one of them has to see both at 0: each writes one counter and then reads
 *    the other, which only sequential consistency orders. The same for threads that have done their last
 *    call, in the order in which they did in the recording: one that began after them waits for them.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MAGIC "HTPLAN1\n"
#define LEAD 1
#define BUFFER 1024 /* records: a read costs 1 ns each, and a thread has 16 KiB of stack for it */
#define SPINS                                                                                      \
  2000 /* looks at a slot or window before sleeping: some 20 us, less than a switch costs */
#define ALL_PAGES UINT32_MAX

enum { MALLOC = 1, CALLOC, ALIGNED, FREE, REALLOC_OF, REALLOC_TO, START, WINDOW };
#define AWAITED 16

struct header {
  char magic[8];
  uint32_t page_size, threads, windows, main;
  uint64_t slots, records, calls;
};

struct record {
  uint64_t
      what; /* operation: 4 bits, AWAITED, from bit 8 log2 of the alignment, from bit 16 the size */
  uint32_t slot; /* START: thread; WINDOW: window */
  uint32_t pages;
};

struct thread {
  uint64_t first, count; /* records */
  uint64_t acts;         /* so many of them up to its last call */
  uint32_t stays;        /* until the end of the replay, when its records are done */
  uint32_t number;       /* in the recording */
  uint32_t rank,
      after; /* in the order of last calls; so many threads did theirs before its first */
};

/* Slots beside blocks and NULL. Neither is an address that an allocator returns. */
#define WAITED ((char *)1)  /* NULL, and somebody sleeps until that changes */
#define NOTHING ((char *)2) /* NULL is what malloc(0) returned */

static struct header plan;
static struct thread *threads;
static int plan_file;
static off_t records_at;
static const char *plan_name;
static _Atomic(char *) *slots;

/* Stages that end one after the other. */
struct stages {
  _Atomic uint32_t *left; /* threads that are not behind each of them */
  uint32_t count;
  _Atomic uint32_t done; /* stages that nobody is in any more */
};

static bool dry;
static int spins; /* 0 on one CPU, where looking again is useless */
static struct stages windows;
static struct stages finished; /* threads that have done their last call */
static _Atomic uint32_t alive; /* threads started and not at their end */
static _Atomic(pthread_t)
    ended; /* the last thread that ended; 0: none. It is joined by the next one */
static _Atomic uint64_t checksum;

/* What a thread is doing; on its stack. */
struct player {
  const struct thread *thread;
  uint64_t position; /* of the next record to read */
  uint32_t window;   /* UINT32_MAX: none yet */
  uint64_t checksum;
  /* Between the halves of a realloc. */
  char *old;
  uint64_t old_size;
  uint32_t old_slot, old_pages;
};

static _Noreturn __attribute__((cold)) void bad_plan(const char *what) {
  bench_fail(BENCH_BAD_INPUT, "%s: damaged plan: %s", plan_name, what);
}

/* At least one byte. */
static void read_plan_at(void *into, size_t bytes, off_t offset) {
  size_t read = 0;
  do {
    ssize_t more = pread(plan_file, (char *)into + read, bytes - read, offset + (off_t)read);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) bad_plan("it is cut off");
    read += (size_t)more;
  } while (read < bytes);
}

/* --- waiting ----------------------------------------------------------------------------------- */

static void futex_wait(void *address, uint32_t value) {
  syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(void *address) {
  syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* The half of a slot that tells NULL, WAITED and a block apart: the kernel compares 32 bits. A block
 * whose low half is 1 does not exist, as blocks are aligned. */
static void *low_half(_Atomic(char *) *slot) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  return (uint32_t *)(void *)slot + 1;
#else
  return (void *)slot;
#endif
}

/* Waits for the block in `slot`, which another thread allocates. */
static __attribute__((noinline)) char *await_block(_Atomic(char *) *slot) {
  for (int i = 0; i < spins; i++) {
    char *block = atomic_load_explicit(slot, memory_order_acquire);
    if (block > WAITED) return block;
    relax();
  }
  for (;;) {
    char *block = NULL;
    /* Acquire for the block that a failed exchange finds. The owner's exchange reads WAITED. */
    if (!atomic_compare_exchange_strong_explicit(slot, &block, WAITED, memory_order_acquire,
                                                 memory_order_acquire) &&
        block != WAITED)
      return block;
    futex_wait(low_half(slot), 1);
  }
}

static void await(struct stages *stages, uint32_t least) {
  for (int i = 0; i < spins; i++) {
    if (atomic_load_explicit(&stages->done, memory_order_acquire) >= least) return;
    relax();
  }
  uint32_t now;
  while ((now = atomic_load_explicit(&stages->done, memory_order_acquire)) < least)
    futex_wait(&stages->done, now);
}

static void leave(struct stages *stages, uint32_t stage) {
  if (atomic_fetch_sub(&stages->left[stage], 1) != 1) return;
  bool moved = false;
  uint32_t now = atomic_load(&stages->done);
  /* A failed exchange has read how far others have come. */
  while (now < stages->count && atomic_load(&stages->left[now]) == 0)
    if (atomic_compare_exchange_weak(&stages->done, &now, now + 1)) {
      moved = true;
      now++;
    }
  if (moved) futex_wake(&stages->done);
}

static void enter_window(struct player *player, uint32_t window) {
  if (window >= plan.windows || (player->window != UINT32_MAX && window <= player->window))
    bad_plan("windows out of order");
  if (player->window != UINT32_MAX) leave(&windows, player->window);
  player->window = window;
  if (window > LEAD) await(&windows, window - LEAD);
}

/* --- blocks ------------------------------------------------------------------------------------ */

static inline bool is_marked(uint64_t size, uint32_t pages) { return size >= 8 && pages != 0; }

static inline uint64_t mark_of(uint32_t slot) { return UINT64_C(0x9e3779b97f4a7c15) + slot; }

static _Noreturn __attribute__((cold)) void damaged(const struct player *player, uint32_t slot,
                                                    uint64_t size, const char *what) {
  bench_fail(BENCH_FAILED, "thread %u: the block of %" PRIu64 " bytes in slot %u %s",
             player->thread->number, size, slot, what);
}

/* Writes a byte in each of the first `pages` pages, from byte `from` on, and the mark. */
static inline void touch(const struct player *player, char *block, uint64_t size, uint64_t from,
                         uint32_t pages, uint32_t slot, bool zeroed) {
  if (pages == 0 || size == 0) return;
  uint64_t page = plan.page_size;
  uint64_t start = (uint64_t)(uintptr_t)block & (page - 1);
  uint64_t end = size;
  if (pages != ALL_PAGES && pages * page - start < size) end = pages * page - start;
  if (from == 0) {
    if (zeroed && block[0] != 0) damaged(player, slot, size, "is from calloc and not 0");
    block[0] = 1;
    from = 1;
  }
  /* The first byte of each page behind `from`. */
  for (uint64_t at = ((start + from + page - 1) & ~(page - 1)) - start; at < end; at += page) {
    if (zeroed && block[at] != 0) damaged(player, slot, size, "is from calloc and not 0");
    block[at] = 1;
  }
  uint64_t mark = mark_of(slot);
  if (size >= sizeof mark) memcpy(block, &mark, sizeof mark);
}

/* Takes a block out of its slot. */
static inline char *take(struct player *player, uint32_t slot) {
  char *block = atomic_load_explicit(&slots[slot], memory_order_acquire);
  if (__builtin_expect(block <= WAITED, 0)) block = await_block(&slots[slot]);
  atomic_store_explicit(&slots[slot], NULL, memory_order_relaxed);
  player->checksum += slot;
  return block;
}

static inline void check(const struct player *player, const char *block, uint64_t size,
                         uint32_t pages, uint32_t slot) {
  if (!is_marked(size, pages)) return;
  uint64_t mark;
  memcpy(&mark, block, sizeof mark);
  if (__builtin_expect(mark != mark_of(slot), 0))
    damaged(player, slot, size, "does not hold what was written into it");
}

static inline void put(uint32_t slot, char *block, bool awaited) {
  if (!awaited) atomic_store_explicit(&slots[slot], block, memory_order_release);
  else if (atomic_exchange_explicit(&slots[slot], block, memory_order_release) == WAITED)
    futex_wake(low_half(&slots[slot]));
}

static inline char *allocate(struct player *player, const struct record *record, unsigned operation,
                             uint64_t size) {
  switch (operation) {
  case MALLOC:
    return malloc(size);
  case CALLOC:
    return calloc(1, size);
  case REALLOC_TO:
    return realloc(player->old, size);
  default: {
    size_t alignment = (size_t)1 << (record->what >> 8 & 63);
    void *block;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (posix_memalign(&block, alignment, size) != 0) return NULL;
    if (((uintptr_t)block & (alignment - 1)) != 0)
      damaged(player, record->slot, size, "is not aligned");
    return block;
  }
  }
}

static inline char *make(struct player *player, const struct record *record, unsigned operation) {
  uint64_t size = record->what >> 16;
  char *block = allocate(player, record, operation, size);
  if (__builtin_expect(block == NULL, 0)) {
    if (size != 0) bench_check(block, size);
    return NOTHING;
  }
  uint64_t from = 0;
  if (operation == REALLOC_TO) {
    uint64_t both = player->old_size < size ? player->old_size : size;
    if (is_marked(both, player->old_pages)) {
      uint64_t mark;
      memcpy(&mark, block, sizeof mark);
      if (mark != mark_of(player->old_slot))
        damaged(player, record->slot, size, "lost its content in realloc");
    }
    /* What the old block had touched was copied or moved along. */
    from = player->old_size;
    if (player->old_pages != ALL_PAGES && player->old_pages * (uint64_t)plan.page_size < from)
      from = player->old_pages * (uint64_t)plan.page_size;
  }
  touch(player, block, size, from, record->pages, record->slot, operation == CALLOC);
  return block;
}

/* --- threads ----------------------------------------------------------------------------------- */

static void *run_thread(void *argument);

static void start_thread(uint32_t index) {
  pthread_t thread;
  atomic_fetch_add_explicit(&alive, 1,
                            memory_order_relaxed); /* the main thread reads it after `done` */
  int error = pthread_create(&thread, NULL, run_thread, &threads[index]);
  if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
}

static inline __attribute__((always_inline)) void
play_records(struct player *player, const struct record *records, size_t count, bool calls) {
  for (size_t i = 0; i < count; i++) {
    const struct record *record = &records[i];
    unsigned operation = record->what & 15;
    uint32_t slot = record->slot;
    if (__builtin_expect(operation - 1 < REALLOC_TO && slot >= plan.slots, 0)) bad_plan("slots");
    switch (operation) {
    case FREE: {
      char *block = take(player, slot);
      if (!calls) break;
      if (block == NOTHING) block = NULL;
      else check(player, block, record->what >> 16, record->pages, slot);
      free(block);
      break;
    }
    case REALLOC_OF:
      player->old = take(player, slot);
      if (player->old == NOTHING) player->old = NULL;
      player->old_slot = slot;
      player->old_size = player->old != NULL ? record->what >> 16 : 0;
      player->old_pages = record->pages;
      break;
    case MALLOC:
    case CALLOC:
    case ALIGNED:
    case REALLOC_TO:
      put(slot, calls ? make(player, record, operation) : (char *)&slots[slot],
          (record->what & AWAITED) != 0);
      break;
    case WINDOW:
      enter_window(player, slot);
      break;
    case START:
      if (slot >= plan.threads) bad_plan("threads");
      start_thread(slot);
      break;
    default:
      bad_plan("operations");
    }
  }
}

/* The thread's records from `at` to `end`. */
static void play_part(struct player *player, uint64_t at, uint64_t end) {
  struct record records[BUFFER];
  while (at < end) {
    uint64_t count = end - at < BUFFER ? end - at : BUFFER;
    off_t offset = records_at + (off_t)((player->thread->first + at) * sizeof records[0]);
    read_plan_at(records, count * sizeof records[0], offset);
    if (dry) play_records(player, records, count, false);
    else play_records(player, records, count, true);
    at += count;
  }
}

static void play(const struct thread *thread) {
  struct player player = {.thread = thread, .window = UINT32_MAX};
  await(&finished, thread->after);
  play_part(&player, 0, thread->acts);
  leave(&finished, thread->rank);
  play_part(&player, thread->acts, thread->count);
  if (player.window != UINT32_MAX) leave(&windows, player.window);
  if (thread->stays) await(&windows, plan.windows);
  atomic_fetch_add_explicit(&checksum, player.checksum, memory_order_relaxed);
}

/* Joins the thread that ended before; the one that ends now is left to the next. So all are gone when
 * the last one is joined, and no more than one stack waits for it at a time. */
static void *run_thread(void *argument) {
  play(argument);
  pthread_t before = atomic_exchange_explicit(&ended, pthread_self(), memory_order_acq_rel);
  if (before != 0) pthread_join(before, NULL);
  if (atomic_fetch_sub_explicit(&alive, 1, memory_order_acq_rel) == 1) futex_wake(&alive);
  return NULL;
}

static void run(void) {
  play(&threads[plan.main]);
  await(&windows, plan.windows); /* so all that will ever be started are */
  uint32_t now;
  while ((now = atomic_load_explicit(&alive, memory_order_acquire)) != 0) futex_wait(&alive, now);
  pthread_t last = atomic_load_explicit(&ended, memory_order_acquire);
  if (last != 0) pthread_join(last, NULL);
}

/* --- start ------------------------------------------------------------------------------------- */

static void open_plan(const char *name) {
  plan_name = name;
  plan_file = open(name, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (plan_file < 0 || fstat(plan_file, &status) != 0)
    bench_fail(BENCH_BAD_INPUT, "%s: %s", name, strerror(errno));
  read_plan_at(&plan, sizeof plan, 0);
  if (memcmp(plan.magic, MAGIC, sizeof plan.magic) != 0)
    bench_fail(BENCH_BAD_INPUT, "%s: not a plan; hakmem-lab replay makes one", name);
  uint64_t size = (uint64_t)status.st_size;
  uint64_t tables = sizeof plan + (uint64_t)plan.threads * sizeof(struct thread) +
                    (uint64_t)plan.windows * sizeof(uint32_t);
  tables = (tables + 15) & ~UINT64_C(15);
  if (plan.page_size < 512 || (plan.page_size & (plan.page_size - 1)) != 0) bad_plan("page size");
  if (plan.main >= plan.threads || plan.windows == 0) bad_plan("threads or windows");
  if (plan.slots > UINT32_MAX) bad_plan("slots");
  if (size < tables || (size - tables) / sizeof(struct record) != plan.records)
    bad_plan("its size is not what it says");
  threads = bench_map(plan.threads * sizeof *threads);
  windows = (struct stages){bench_map(plan.windows * sizeof *windows.left), plan.windows, 0};
  finished = (struct stages){bench_map(plan.threads * sizeof *finished.left), plan.threads, 0};
  slots = bench_map((plan.slots + 1) * sizeof *slots);
  off_t after = sizeof plan + (off_t)(plan.threads * sizeof *threads);
  read_plan_at(threads, plan.threads * sizeof *threads, sizeof plan);
  read_plan_at((void *)windows.left, plan.windows * sizeof *windows.left, after);
  for (uint32_t i = 0; i < plan.threads; i++) {
    const struct thread *thread = &threads[i];
    if (thread->first > plan.records || thread->count > plan.records - thread->first ||
        thread->acts > thread->count || thread->rank >= plan.threads ||
        thread->after >= plan.threads)
      bad_plan("threads");
    finished.left[thread->rank] = 1;
  }
  records_at = (off_t)tables;
}

static void usage(FILE *out) {
  fputs("usage: replay PLAN [--dry]\n"
        "Does the allocations of a recorded program again; hakmem-lab replay makes the plan.\n"
        "  --dry       everything but the calls: what the replay itself takes\n"
        "  --version   says which allocator this is\n",
        out);
}

int main(int argc, char **argv) {
  bench_program = "replay";
  if (argc == 2 && strcmp(argv[1], "--version") == 0)
    bench_arguments(argc, argv, "", NULL, 0, NULL);
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    usage(stdout);
    return 0;
  }
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "replay: %d arguments given, 1 to 2 accepted\n", argc - 1);
    usage(stderr);
    return BENCH_BAD_INPUT;
  }
  dry = argc == 3;
  if (dry && strcmp(argv[2], "--dry") != 0)
    bench_fail(BENCH_BAD_INPUT, "unknown: '%s'; accepted: --dry", argv[2]);
  open_plan(argv[1]);
  cpu_set_t cpus;
  spins = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1 ? 0 : SPINS;

  double cpu = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
  double begin = bench_clock(CLOCK_MONOTONIC);
  run();
  double seconds = bench_clock(CLOCK_MONOTONIC) - begin;
  struct bench_result result = {plan.calls, checksum, seconds,
                                bench_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu};
  bench_report(&result);
  return 0;
}
