/* fork_at_every_store.c - a fork at every store of another thread to its heap.
 *
 * The other thread runs each operation one instruction at a time: the processor's trap flag brings it into a signal
 * handler after each. Where the instruction has changed its heap, and at some others, it stands still there while this
 * thread forks. The child finds the heap as it was at that instruction, and has to go on with it: a new thread gets it,
 * allocates and frees.
 *
 * Where the thread holds a lock, the fork waits until it is released, some instructions further on. */
#include "unit_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "front/guard.h"
#include "heap/absent.h"
#include "heap/bins.h"
#include "heap/heap.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NOT_HERE "needs the trap flag of x86-64, and code without a sanitizer's own"
#elif HAK_FAST
#define NOT_HERE "this variant cannot be told to start no helper thread"
#endif

#ifdef NOT_HERE
int main(void) {
  printf("skipped: %s\n", NOT_HERE);
  return 77;
}
#else

#define TRAP_FLAG 0x100u

/* --- stepping ------------------------------------------------------------------------------------------------- */

enum turn { TURN_RUN, TURN_FORK, TURN_DONE };

static _Atomic(enum turn) turn;       /* TURN_FORK until the child has ended */
static _Atomic uintptr_t instruction; /* that comes next in the stepping thread */
static atomic_bool forking;           /* inside fork(), perhaps waiting for a lock */

static struct thread_cache *owner, *stepped; /* the forking thread's heap, and the stepping one's */

static uint64_t now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static bool is_held(struct lock *lock) { return atomic_load(&lock->state) != 0; }

/* Stands still until the child has ended. Not for ever while the fork may wait for a lock that this thread holds. */
static void stand_still(void) {
  enum { A_FORK_US = 3000, A_WAKE_US = 100 };
  static bool waits_for_lock;
  uint64_t until = now_us() + (waits_for_lock ? A_WAKE_US : A_FORK_US);
  while (atomic_load(&turn) == TURN_FORK) {
    waits_for_lock = atomic_load(&forking) && now_us() >= until;
    if (waits_for_lock) return;
    sched_yield();
  }
  waits_for_lock = false;
}

/* What the stepping thread alone writes of its heap, at the last fork. */
enum { OWN_BYTES = offsetof(struct thread_cache, counters) };
static char at_last_fork[OWN_BYTES];

/* A store to the heap is always worth a fork, of other instructions one in so many. */
static bool is_worth_a_fork(void) {
  enum { OTHERS = 12 };
  static unsigned instructions;
  if (memcmp(at_last_fork, stepped, OWN_BYTES) == 0 && ++instructions % OTHERS != 0) return false;
  memcpy(at_last_fork, stepped, OWN_BYTES);
  return true;
}

/* In the stepping thread, between two instructions of it. */
static void on_trap(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  /* The fork would wait for these in any case. */
  if (is_held(&stepped->arena->lock) || is_held(&owner->arena->lock) || is_held(&superslab_lock))
    return;
  if (!is_worth_a_fork()) return;
  int saved = errno;
  stand_still(); /* a fork that had to wait is done only now */
  if (atomic_load(&turn) == TURN_RUN) {
    atomic_store(&instruction, (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
    atomic_store(&turn, TURN_FORK);
    stand_still();
  }
  errno = saved;
}

static void step(void (*operation)(void)) {
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
  operation();
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long long)TRAP_FLAG);
}

/* --- what there is --------------------------------------------------------------------------------------------- */

enum { SIZES = 4, BLOCKS = 300 };

/* 16 bytes to a class whose bin shares its outgoing slot with another's (find_sizes). */
static size_t sizes[SIZES] = {16, 96};

static void *owned[SIZES][BLOCKS]; /* blocks of the forking thread, for the other one to free */
static size_t freed[SIZES];        /* how many of them it has freed, from the first on */
static void *kept[BLOCKS];         /* blocks of the stepping thread, of sizes[1] */
static size_t kept_count;

/* Two classes of the owner whose blocks are gathered in the same slot of the other: there are more classes than slots. */
static void find_sizes(void) {
  for (unsigned a = 6; a < CLASS_COUNT; a++)
    for (unsigned b = a + 1; b < CLASS_COUNT; b++) {
      if (remote_slot(stepped, &owner->arena->inboxes[a]) !=
          remote_slot(stepped, &owner->arena->inboxes[b]))
        continue;
      sizes[2] = class_size(a);
      sizes[3] = class_size(b);
      return;
    }
  fail();
}

static unsigned class_at(unsigned s) { return class_for(sizes[s]); }

/* --- the child ------------------------------------------------------------------------------------------------- */

#define EXPECT(condition) ((condition) ? (void)0 : child_fails(__LINE__, #condition))

static void child_fails(int line, const char *condition) {
  char text[200];
  int length = snprintf(text, sizeof text, "child, line %d: %s\n", line, condition);
  if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(3);
  _exit(2);
}

static bool is_heap(const struct arena *heap) {
  for (struct arena *h = arena_first(); h != NULL; h = h->next)
    if (h == heap) return true;
  return false;
}

enum { MOST_SEEN = 8192 };
static void *seen[MOST_SEEN];

/* A free block is of its list's class, and in no other list. */
static void see(void *block, unsigned size_class) {
  struct slab *slice = map_slab(block);
  EXPECT(slice != NULL && slice->size_class == size_class);
  size_t at = (uintptr_t)block / BLOCK_ALIGNMENT % MOST_SEEN;
  for (; seen[at] != NULL; at = (at + 1) % MOST_SEEN) EXPECT(seen[at] != block);
  seen[at] = block;
}

static void see_list(void *list, unsigned size_class) {
  for (; list != NULL; list = link_next(list)) see(list, size_class);
}

static void look_at_sent(struct thread_cache *heap, unsigned size_class) {
  void *list;
  lock_acquire(&heap->arena->lock);
  while (remote_take_batch(heap->arena, size_class, &list) > 0) {
    see_list(list, size_class);
    slabs_put_list(heap->arena, size_class, list, true);
  }
  lock_release(&heap->arena->lock);
}

static void look_at_heap(struct thread_cache *heap) {
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++) {
    struct outgoing *slot = &heap->outgoing[i];
    if (slot->owner == NULL) {
      EXPECT(slot->head == NULL);
      continue;
    }
    struct arena *to = arena_of_inbox(slot->owner, slot->size_class);
    EXPECT(is_heap(to) && slot->owner == &to->inboxes[slot->size_class] && slot->limit > 0);
    see_list(slot->head, slot->size_class);
  }
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    see_list(heap->bins[c].head, c);
    look_at_sent(heap, c);
  }
}

/* What the program has written to a block: no link, if a list should take it for one. */
#define WRITTEN UINT64_C(0x5a5a5a5a5a5a5a50)

static void *write_to(void *block) {
  if (block != NULL) *(uint64_t *)block = WRITTEN;
  return block;
}

static bool is_as_written(const void *block) { return *(const uint64_t *)block == WRITTEN; }

/* Large ones, from the cache of spans that were freed. */
static void use_large(void) {
  enum { LARGE = 4 };
  uint64_t *blocks[LARGE];
  for (uint64_t i = 0; i < LARGE; i++) {
    blocks[i] = hak_malloc(100 * KIB + i % 2 * 200 * KIB);
    EXPECT(blocks[i] != NULL);
    *blocks[i] = ~i;
  }
  for (uint64_t i = 0; i < LARGE; i++) {
    EXPECT(*blocks[i] == ~i);
    hak_free(blocks[i]);
  }
}

/* Blocks that the new thread gets; two that are one would overwrite each other. */
static void use(void) {
  enum { MORE = 70 }; /* beyond what a bin starts with */
  static uint64_t *blocks[SIZES][MORE];
  for (unsigned s = 0; s < SIZES; s++)
    for (uint64_t i = 0; i < MORE; i++) {
      blocks[s][i] = hak_malloc(sizes[s]);
      EXPECT(blocks[s][i] != NULL && class_for(hak_usable_size(blocks[s][i])) >= class_at(s));
      *blocks[s][i] = ~(s * 1000 + i);
    }
  for (unsigned s = 0; s < SIZES; s++)
    for (uint64_t i = 0; i < MORE; i++) {
      EXPECT(*blocks[s][i] == ~(s * 1000 + i));
      hak_free(blocks[s][i]);
    }
  use_large();
}

/* The bins run empty, and are swept then, while another runs over: nothing may rely on how many blocks they should hold. */
static void empty_and_sweep(void) {
  static void *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) EXPECT((blocks[i] = hak_malloc(sizes[0])) != NULL);
  for (unsigned s = 1; s < SIZES; s++)
    while (stepped->bins[class_at(s)].head != NULL) EXPECT(hak_malloc(sizes[s]) != NULL);
  stepped->freed_in_a_row = GIB;
  stepped->use[class_at(0)].overflows = OVERFLOWS_SHRINK;
  for (size_t i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
  EXPECT(stepped->freed_in_a_row < GIB);
}

static size_t fork_number;

static void *in_new_thread(void *unused) {
  hak_free(hak_malloc(1));
  EXPECT(cache_of_thread() == stepped);
  if (fork_number % 2 == 0) empty_and_sweep();
  use();
  /* The slots of the former thread, with a block of each of their owners. */
  for (unsigned s = 0; s < SIZES; s++) {
    EXPECT(is_as_written(owned[s][BLOCKS - 1]));
    hak_free(owned[s][BLOCKS - 1]);
  }
  remote_flush(stepped);
  look_at_heap(stepped);
  return unused;
}

/* What the thread left in bins and slots is the child's. Where a bin grows or is emptied its count is not that of its list for some
 * instructions: then its blocks are lost. */
enum { LOST_SOME = 7 }; /* how such a child ends */

static unsigned blocks_in(void *list) {
  unsigned blocks = 0;
  for (; list != NULL; list = link_next(list)) blocks++;
  return blocks;
}

static void take_what_was_left(struct thread_cache *heap) {
  unsigned left[CLASS_COUNT], slots = 0;
  uint64_t lost = absent_lost_bytes();
  EXPECT(arena_beside(heap)->state == ARENA_PARKED && arena_beside(heap)->in_doubt);
  for (unsigned c = 0; c < CLASS_COUNT; c++) left[c] = blocks_in(heap->bins[c].head);
  lock_acquire(&arena_beside(heap)->lock);
  absent_prove(arena_beside(heap));
  lock_release(&arena_beside(heap)->lock);
  superslab_settle();
  EXPECT(!arena_beside(heap)->in_doubt);
  size_t budget = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    const struct bin *bin = &heap->bins[c];
    unsigned now = blocks_in(bin->head);
    if (now != left[c]) EXPECT(now == 0 && absent_lost_bytes() > lost);
    EXPECT(now == (unsigned)((int32_t)bin->capacity - bin->room));
    budget += (size_t)bin->capacity * class_size(c);
  }
  EXPECT(heap->bin_budget_used == budget);
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++) slots += heap->outgoing[i].head != NULL;
  EXPECT(slots == 0);
}

static void in_child(void) {
  alarm(60);
  signal(SIGSEGV, SIG_DFL); /* cmocka's would let the child go on with the next test */
  take_what_was_left(stepped);
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    look_at_heap(cache_beside(arena));
  memset(seen, 0, sizeof seen);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, in_new_thread, NULL) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  look_at_heap(owner);
  use();
  hak_purge();
  use();
  /* What was not freed is as it was. */
  for (unsigned s = 0; s < SIZES; s++)
    for (size_t i = freed[s] + 1; i < BLOCKS - 1; i++) EXPECT(is_as_written(owned[s][i]));
  _exit(absent_lost_bytes() > 0 ? LOST_SOME : 0);
}

/* --- operations of the stepping thread ------------------------------------------------------------------------------ */

static void free_one(unsigned s) { hak_free(owned[s][freed[s]++]); }

/* The first block for an owner, and the first one for its other class in the same slot: twice, so that both ways of the
 * change are seen. */
static void open_slots(void) {
  free_one(1);
  free_one(2);
  free_one(3);
  free_one(2);
}

static void gather(void) {
  for (int i = 0; i < 3; i++) free_one(1);
}

/* One block short of a batch before it. */
static void send_batch(void) {
  free_one(0);
  free_one(0);
}

static void flush(void) { remote_flush(stepped); }

static void allocate_some(void) {
  for (int i = 0; i < 6; i++) kept[kept_count++] = write_to(hak_malloc(sizes[1]));
}

static void free_some(void) {
  for (int i = 0; i < 6; i++) hak_free(kept[--kept_count]);
}

static void free_too_many(void) {
  while (kept_count > 0) hak_free(kept[--kept_count]);
}

static void *large, *larger, *aligned;

static void allocate_large(void) {
  large = hak_malloc(100 * KIB);
  larger = hak_malloc(300 * KIB);
  aligned = hak_aligned_alloc(4 * KIB, 4 * KIB);
}

/* The one that was freed first comes out of the cache before the other. */
static void free_large(void) {
  hak_free(large);
  hak_free(larger);
  hak_free(aligned);
  large = hak_malloc(100 * KIB);
  hak_free(large);
}

static void try_huge(void) {
  void *huge = hak_realloc(hak_malloc(3 * MIB), 7 * MIB);
  hak_free(huge);
}

/* A heap for one operation, as threads past their end have it. */
static void borrow(void) {
  struct thread_cache *heap = cache_borrow();
  if (heap != NULL) cache_return(heap);
  void *block = owned[1][freed[1]++];
  guard_freed(block, map_inbox(block));
  remote_free_now(map_inbox(block), block);
}

static void purge(void) { hak_purge(); }

static void fill_slot(void) {
  while (freed[0] < 127) free_one(0);
}

static void fill_bin(void) {
  while (kept_count < BLOCKS) kept[kept_count++] = write_to(hak_malloc(sizes[1]));
  while (kept_count > 40) hak_free(kept[--kept_count]);
}

static const struct operation {
  const char *name;
  void (*prepare)(void); /* in the stepping thread, in one go; NULL: nothing */
  void (*run)(void);
} operations[] = {
    {"open_slots", NULL, open_slots},
    {"gather", NULL, gather},
    {"send_batch", fill_slot, send_batch},
    {"flush", gather, flush},
    {"allocate_some", NULL, allocate_some},
    {"free_some", NULL, free_some},
    {"free_too_many", fill_bin, free_too_many},
    {"allocate_large", NULL, allocate_large},
    {"free_large", NULL, free_large},
    {"try_huge", NULL, try_huge},
    {"borrow", NULL, borrow},
    {"purge", NULL, purge},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const struct operation *current;
static atomic_bool has_heap, may_start;

static void *stepping_thread(void *unused) {
  hak_free(hak_malloc(1));
  stepped = cache_of_thread();
  atomic_store(&has_heap, true);
  for (size_t i = 0; i < OPERATIONS; i++) {
    current = &operations[i];
    if (current->prepare != NULL) current->prepare();
    while (!atomic_load(&may_start)) sched_yield();
    step(current->run);
    atomic_store(&may_start, false);
    atomic_store(&turn, TURN_DONE);
    while (atomic_load(&turn) == TURN_DONE) sched_yield();
  }
  return unused;
}

/* --- the forking thread ----------------------------------------------------------------------------------------- */

static size_t forks_with_loss;

static void fork_once(void) {
  fork_number++;
  uintptr_t at = atomic_load(&instruction);
  atomic_store(&forking, true);
  pid_t child = fork();
  if (child == 0) in_child();
  atomic_store(&forking, false);
  int status = -1;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == LOST_SOME) {
    forks_with_loss++;
    return;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    Dl_info where = {0};
    dladdr((void *)at, &where); // NOLINT(performance-no-int-to-ptr): a program counter
    print_message("%s, fork %zu, before %#lx (%s): a child ended with %#x\n", current->name,
                  fork_number, (unsigned long)at, where.dli_sname != NULL ? where.dli_sname : "?",
                  (unsigned)status);
    fail();
  }
}

/* Forks all through the operation; returns how often. */
static size_t fork_through(void) {
  size_t forks = 0;
  atomic_store(&turn, TURN_RUN);
  atomic_store(&may_start, true);
  for (;;) {
    enum turn now = atomic_load(&turn);
    if (now == TURN_DONE) return forks;
    if (now != TURN_FORK) {
      sched_yield();
      continue;
    }
    forks++;
    fork_once();
    enum turn expected = TURN_FORK;
    atomic_compare_exchange_strong(&turn, &expected, TURN_RUN);
  }
}

static void a_child_goes_on_from_each_store(void **state) {
  (void)state;
  pthread_t thread;
  struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGTRAP, &trap, NULL), 0);
  hak_free(hak_malloc(1));
  /* Signals are blocked while the helper is started, and a trap then ends the process. */
  SET_OPTION(BACKGROUND, 0);
  SET_OPTION(
      CONTAINER,
      0); /* to find the groups takes 40,000 instructions, and writes nothing that a fork is about */
  owner = cache_of_thread();
  assert_non_null(owner);
  if (owner->counters != NULL) {
    print_message("skipped: where calls are counted, all go another way\n");
    skip();
  }
  assert_int_equal(pthread_create(&thread, NULL, stepping_thread, NULL), 0);
  while (!atomic_load(&has_heap)) sched_yield();
  find_sizes();
  for (unsigned s = 0; s < SIZES; s++)
    for (size_t i = 0; i < BLOCKS; i++) {
      owned[s][i] = hak_malloc(sizes[s]);
      assert_non_null(write_to(owned[s][i]));
    }
  size_t all = 0;
  for (size_t i = 0; i < OPERATIONS; i++) {
    size_t forks = fork_through();
    print_message("%s: %zu forks\n", operations[i].name, forks);
    all += forks; /* of one operation few, where the processor is busy */
    atomic_store(&turn, TURN_RUN);
  }
  assert_true(all > 10 * OPERATIONS);
  print_message("%zu of %zu children lost blocks\n", forks_with_loss, all);
  assert_true(forks_with_loss < all / 4);
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_goes_on_from_each_store)};
  return cmocka_run_group_tests_name("fork at every store", tests, NULL, NULL);
}
#endif
