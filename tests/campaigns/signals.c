/* signals.c - a signal before every instruction of malloc, calloc, realloc, aligned_alloc, free and the purge.
 *
 * This process traces a second one that runs each operation one instruction at a time (ptrace). In a first round a signal comes
 * before each of them: its handler, on a stack of its own, raises another signal, whose handler looks at the alternate stack. In
 * a second one the handler forks, before as many instructions as there is time for. The child goes back from the handler, ends
 * the operation that was interrupted, looks at all blocks, allocates in every tier, frees all, and ends; the parent
 * does the same in the end. A child that hangs ends by a signal.
 *
 * While the library blocks signals (to start its helper) none comes: such instructions are counted apart.
 *
 * usage: signals [every [forks [seed]]]   a signal before each `every`-th instruction; so many forks an operation, 0: before each
 *        signals target                   what is traced */
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__x86_64__) || KIT_SANITIZED
int main(void) {
  puts("skipped: needs x86-64, and code without a sanitizer's own");
  return KIT_SKIP;
}
#else

enum { RAISE = SIGUSR2, FORK = SIGUSR1 };

/* What the traced process says, by a breakpoint whose argument is one of these. */
enum word { READY, BEGIN, END, HANDLED, CHILD_FAILED, OVER };

/* --- the traced process ---------------------------------------------------------------------------- */

static volatile sig_atomic_t is_child, second_seen;
static unsigned long child_number;

__attribute__((noinline)) static void trap(enum word word, uint64_t value) {
  __asm__ volatile("int3" : : "D"((uint64_t)word), "S"(value) : "memory");
}

/* By a pointer, so that the compiler makes no second one of it for a constant: its place tells who traps. */
static void (*volatile say)(enum word word, uint64_t value) = trap;

enum { LIVE = 200, ANOTHERS = 64 };
static kit_block live[LIVE];
static size_t live_count;
static struct kit_rng rng;

static void keep(kit_block block) {
  CHECK(block != 0 && live_count < LIVE, "no block, or too many");
  live[live_count++] = block;
}

static void free_last(void) { kit_block_free(live[--live_count]); }

static void free_all(void) {
  while (live_count > 0) free_last();
}

/* In the operations only the calls themselves: what is written to a block is written before or after. */
static void *memory[256];
static size_t memory_count;

static void make_blocks(size_t count, size_t size) {
  for (memory_count = 0; memory_count < count; memory_count++)
    memory[memory_count] = mem_malloc(size);
}

/* Two blocks that are one would overwrite each other. */
static void look_at_memory(size_t size) {
  for (size_t i = 0; i < memory_count; i++) {
    CHECK(memory[i] != NULL && ((uintptr_t)memory[i] & 15) == 0, "block %zu is %p", i, memory[i]);
    memset(memory[i], (int)i, size);
  }
  for (size_t i = 0; i < memory_count; i++) {
    const unsigned char *bytes = memory[i];
    CHECK(bytes[0] == (unsigned char)i && bytes[size - 1] == (unsigned char)i,
          "block %zu is damaged", i);
  }
}

static void free_memory(void) {
  while (memory_count > 0) mem_free(memory[--memory_count]);
}

static void hit_prepare(void) { make_blocks(20, 64), free_memory(); }
static void hit(void) {
  make_blocks(2, 64);
  free_memory();
}

static void refill(void) { make_blocks(60, 208); }
static void refill_done(void) { look_at_memory(208), free_memory(); }

static void overflow_prepare(void) { make_blocks(250, 496); }

static void calloc_some(void) {
  memory[0] = mem_calloc(10, 10);
  memory[1] = mem_calloc(1, 3000);
  memory[2] = mem_calloc(1, 100 * KIT_KB);
  memory_count = 3;
}
static void calloc_done(void) {
  kit_verify_zero(memory[0], 100), kit_verify_zero(memory[1], 3000);
  kit_verify_zero(memory[2], 100 * KIT_KB);
  free_memory();
}

static void realloc_prepare(void) {
  make_blocks(1, 40);
  look_at_memory(40);
}
static void realloc_some(void) {
  static const size_t sizes[] = {44, 200, 3000, 70 * 1024, 300 * 1024, 100 * 1024, 50};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *resized = mem_realloc(memory[0], sizes[i]);
    if (resized != NULL) memory[0] = resized;
  }
}
static void realloc_done(void) {
  for (int i = 0; i < 40; i++) CHECK(((char *)memory[0])[i] == 0, "realloc lost byte %d", i);
  free_memory();
}

static void large(void) {
  memory[0] = mem_malloc(100 * KIT_KB), memory[1] = mem_malloc(300 * KIT_KB);
  mem_free(memory[0]);
  memory[0] = mem_malloc(100 * KIT_KB);
  memory_count = 2;
}
static void large_done(void) { look_at_memory(100 * KIT_KB); }

static void huge(void) {
  memory[0] = mem_malloc(3 * KIT_MB);
  void *resized = mem_realloc(memory[0], 7 * KIT_MB);
  if (resized != NULL) memory[0] = resized;
  memory_count = 1;
}
static void huge_done(void) { look_at_memory(7 * KIT_MB); }

static void aligned(void) {
  memory[0] = mem_aligned_alloc(4096, 5000);
  memory[1] = mem_aligned_alloc(64, 300);
  if (mem_posix_memalign(&memory[2], 2 * KIT_MB, 100) != 0) memory[2] = NULL;
  memory_count = 3;
}
static void aligned_done(void) { look_at_memory(100); }

/* Blocks of a thread that lives, but sleeps with all signals blocked. */
static void *anothers[ANOTHERS];
static pthread_barrier_t filled;
static atomic_bool may_fill, may_end;

static void *other_thread(void *unused) {
  while (!atomic_load(&may_end)) {
    if (atomic_exchange(&may_fill, false)) {
      for (int i = 0; i < ANOTHERS; i++) anothers[i] = mem_malloc(i % 2 ? 80 : 1500);
      pthread_barrier_wait(&filled);
    }
    usleep(2000);
  }
  return unused;
}

static void anothers_prepare(void) {
  atomic_store(&may_fill, true);
  pthread_barrier_wait(&filled);
}
static void free_anothers(void) {
  for (int i = 0; i < ANOTHERS; i++) mem_free(anothers[i]);
}

/* What leaves enough for the purge to do. */
static void purge_prepare(void) {
  make_blocks(200, 3000);
  for (size_t i = 0; i < memory_count; i += 2) mem_free(memory[i]), memory[i] = NULL;
  mem_free(mem_malloc(3 * KIT_MB));
}
static void purge(void) { kit_purge(); }
static void purge_done(void) { free_memory(); }

static const struct operation {
  const char *name;
  void (*prepare)(void), (*run)(void), (*done)(void);
} operations[] = {
    {"hit", hit_prepare, hit, NULL},
    {"refill", NULL, refill, refill_done},
    {"overflow", overflow_prepare, free_memory, NULL},
    {"calloc", NULL, calloc_some, calloc_done},
    {"realloc", realloc_prepare, realloc_some, realloc_done},
    {"large", NULL, large, large_done},
    {"free-large", NULL, free_memory, NULL},
    {"huge", NULL, huge, huge_done},
    {"free-huge", NULL, free_memory, NULL},
    {"aligned", NULL, aligned, aligned_done},
    {"free-aligned", NULL, free_memory, NULL},
    {"free-anothers", anothers_prepare, free_anothers, NULL},
    {"purge", purge_prepare, purge, purge_done},
};
enum { OPERATIONS = sizeof operations / sizeof *operations, ROUNDS = 2 };

static void use_every_tier(void) {
  for (int tier = 0; tier < KIT_TIERS; tier++) {
    kit_block block = kit_block_any(&rng, kit_tier_size(&rng, (enum kit_tier)tier));
    CHECK(block, "malloc failed");
    block = kit_block_resize(block, kit_tier_size(&rng, (enum kit_tier)tier), kit_random(&rng));
    CHECK(block, "realloc failed");
    kit_block_free(block);
  }
}

static void *thread_of_child(void *unused) {
  mem_free(mem_malloc(100));
  return unused;
}

/* The operation that was interrupted has ended, in this process too. */
__attribute__((noreturn)) static void end_of_child(const struct operation *operation) {
  if (operation->done != NULL) operation->done();
  for (size_t i = 0; i < live_count; i++) kit_block_check(live[i]);
  use_every_tier();
  if (child_number % 16 == 0) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, thread_of_child, NULL) == 0, "cannot create a thread");
    pthread_join(id, NULL);
  }
  free_memory();
  free_all();
  kit_purge();
  use_every_tier();
  struct hak_stats stats = kit_stats();
  CHECK(stats.heaps_active == 1, "%lu heaps active", (unsigned long)stats.heaps_active);
  _exit(0);
}

static void on_second(int number) {
  stack_t stack;
  (void)number;
  if (sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0) second_seen = 1;
}

static void on_raise(int number) {
  int saved = errno;
  (void)number;
  second_seen = 0;
  raise(SIGRTMIN);
  say(second_seen ? HANDLED : CHILD_FAILED, 0);
  errno = saved;
}

/* A child that was forked after its operation had ended says so, too, and nobody listens. */
static void not_heard(int number) { (void)number; }

static void on_fork(int number) {
  int saved = errno, status = -1;
  (void)number;
  child_number++;
  pid_t child = fork();
  if (child == 0) {
    is_child = 1;
    signal(SIGTRAP, not_heard);
    alarm(30);
  } else {
    bool good = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    say(good ? HANDLED : CHILD_FAILED, (uint64_t)status);
  }
  errno = saved;
}

static void handle_signals(void) {
  static char other_stack[64 << 10];
  stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  CHECK(sigaltstack(&stack, NULL) == 0, "sigaltstack");
  struct sigaction action = {.sa_handler = on_raise, .sa_flags = SA_ONSTACK};
  CHECK(sigaction(RAISE, &action, NULL) == 0, "sigaction");
  action.sa_handler = on_second;
  CHECK(sigaction(SIGRTMIN, &action, NULL) == 0, "sigaction");
  action.sa_handler = on_fork;
  action.sa_flags = 0;
  CHECK(sigaction(FORK, &action, NULL) == 0, "sigaction");
}

static int target(void) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) return KIT_SKIP;
  raise(SIGSTOP);
  pthread_t other;
  sigset_t all, before;
  rng = kit_rng_make(5);
  pthread_barrier_init(&filled, NULL, 2);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  CHECK(pthread_create(&other, NULL, other_thread, NULL) == 0, "cannot create a thread");
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  handle_signals();
  use_every_tier();
  kit_purge();
  size_t slabs_before = kit_stats().bytes_slab;
  for (int i = 0; i < LIVE; i++)
    keep(kit_block_any(&rng, kit_tier_size(&rng, i % 20 ? KIT_TINY : KIT_MID)));
  say(READY, 0);
  for (int round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < OPERATIONS; i++) {
      const struct operation *operation = &operations[i];
      if (operation->prepare != NULL) operation->prepare();
      say(BEGIN, i + (uint64_t)round * OPERATIONS);
      operation->run();
      if (!is_child) say(END, 0);
      if (is_child) end_of_child(operation);
      if (operation->done != NULL) operation->done();
      for (size_t j = 0; j < live_count; j++) kit_block_check(live[j]);
    }
  atomic_store(&may_end, true);
  pthread_join(other, NULL);
  free_all();
  kit_purge();
  struct hak_stats stats = kit_stats();
  CHECK(stats.huge_live == 0, "huge blocks are left");
  CHECK(stats.bytes_slab <= slabs_before + KIT_MB, "slabs are left");
  CHECK(stats.heaps_active == 1, "heaps are left");
  say(OVER, 0);
  return 0;
}

/* --- the tracing process ----------------------------------------------------------------------------- */

static pid_t traced;
static const char *doing = "start";
static uint64_t where; /* the last instruction before which something was done */
static uint64_t say_address;

static uint64_t instructions, raises, forks, blocked, next_of_rng;

/* The file that the instruction is in, and where there, for addr2line. */
static uint64_t place_in_file(uint64_t address, char *file, size_t room) {
  char path[40], line[512], name[256];
  unsigned long from, to, offset;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)traced);
  FILE *maps = fopen(path, "r");
  snprintf(file, room, "?");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &from, &to, &offset, name) == 4 &&
        address >= from && address < to) {
      snprintf(file, room, "%s", name);
      address = address - from + offset;
      break;
    }
  if (maps != NULL) fclose(maps);
  return address;
}

__attribute__((noreturn)) static void stop_it(const char *what, long value) {
  char file[256];
  uint64_t place = place_in_file(where, file, sizeof file);
  kill(traced, SIGKILL);
  CHECK(false, "%s, before the instruction at %#lx of %s: %s (%#lx)", doing, (unsigned long)place,
        file, what, (unsigned long)value);
  abort();
}

static void on_alarm(int number) {
  (void)number;
  stop_it("nothing has happened for a minute: it hangs", 0);
}

static struct user_regs_struct registers(void) {
  struct user_regs_struct values;
  CHECK(ptrace(PTRACE_GETREGS, traced, NULL, &values) == 0, "ptrace");
  return values;
}

/* Lets it go on, to the next stop. Returns the signal of it. */
static int go_on(int request, int with) {
  int status = 0;
  CHECK(ptrace(request, traced, NULL, (void *)(intptr_t)with) == 0, "ptrace");
  while (waitpid(traced, &status, __WALL) < 0) CHECK(errno == EINTR, "waitpid");
  if (!WIFSTOPPED(status)) stop_it("it ended", status);
  return WSTOPSIG(status);
}

/* To the next word it says. Signals in between are its own: children that end, and what it raises. */
static enum word next_word(int with) {
  for (;;) {
    int number = go_on(PTRACE_CONT, with);
    if (number != SIGTRAP) {
      with = number;
      continue;
    }
    struct user_regs_struct values = registers();
    if (say_address == 0) say_address = values.rip;
    if (values.rip != say_address) stop_it("a trap of others", (long)values.rip);
    return (enum word)values.rdi;
  }
}

static bool is_blocked(int number) {
  uint64_t mask = 0;
  CHECK(ptrace(PTRACE_GETSIGMASK, traced, (void *)sizeof mask, &mask) == 0, "ptrace");
  return (mask >> (number - 1) & 1) != 0;
}

/* One instruction. True: the operation has ended. */
static bool step(struct user_regs_struct *values) {
  int with = 0, number;
  while ((number = go_on(PTRACE_SINGLESTEP, with)) != SIGTRAP) with = number;
  *values = registers();
  return values->rip == say_address;
}

/* Delivers the signal here and now, and comes back to where the handler has returned to. */
static void deliver(int number, const struct user_regs_struct *at) {
  enum { MOST = 2000 };
  struct user_regs_struct values;
  where = at->rip;
  alarm(60);
  if (next_word(number) != HANDLED) stop_it("a child, or the second signal", (long)registers().rsi);
  for (int i = 0; i < MOST; i++) {
    (void)step(&values);
    if (values.rip == at->rip && values.rsp == at->rsp) return;
  }
  stop_it("the handler does not return", (long)values.rip);
}

/* Steps through the operation; a signal before each `every`-th instruction, from the `first`-th on. Returns how many there were. */
static uint64_t step_through(int number, uint64_t first, uint64_t every, uint64_t *delivered) {
  uint64_t count = 0, last = 0;
  struct user_regs_struct values;
  while (!step(&values)) {
    if (values.rip == last) continue; /* a string instruction goes on: one instruction */
    last = values.rip;
    if (count++ < first || (count - 1 - first) % every != 0) continue;
    if (is_blocked(number)) {
      blocked++;
      continue;
    }
    deliver(number, &values);
    ++*delivered;
  }
  instructions += count;
  return count;
}

static uint64_t draw(uint64_t below) {
  struct kit_rng numbers = {next_of_rng++};
  return kit_below(&numbers, below);
}

static void start_target(const char *self) {
  traced = fork();
  CHECK(traced >= 0, "fork");
  if (traced > 0) return;
  execl(self, self, "target", (char *)NULL);
  _exit(126);
}

/* Both on one processor: a step then costs two switches and no wake-up of the other one. */
static void share_processor(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

int main(int argc, char **argv) {
  kit_start();
  if (argc > 1 && strcmp(argv[1], "target") == 0) return target();
  uint64_t raise_every = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t most = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;
  next_of_rng = argc > 3 ? strtoull(argv[3], NULL, 10) << 32 : 1;
  uint64_t counts[OPERATIONS];
  int status = 0;
  signal(SIGALRM, on_alarm);
  share_processor();
  start_target("/proc/self/exe");
  alarm(60);
  CHECK(waitpid(traced, &status, 0) == traced, "waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == KIT_SKIP) {
    puts("skipped: a program may not be traced here");
    return KIT_SKIP;
  }
  if (!WIFSTOPPED(status)) stop_it("it did not start", status);
  CHECK(ptrace(PTRACE_SETOPTIONS, traced, NULL, (void *)(long)PTRACE_O_EXITKILL) == 0, "ptrace");
  if (next_word(0) != READY) stop_it("it is not ready", 0);
  for (enum word word; (word = next_word(0)) != OVER;) {
    if (word == END) continue;
    if (word != BEGIN) stop_it("an unknown word", (long)word);
    uint64_t value = registers().rsi, i = value % OPERATIONS;
    doing = operations[i].name;
    alarm(60);
    if (value < OPERATIONS) {
      counts[i] = step_through(RAISE, draw(raise_every), raise_every, &raises);
    } else {
      uint64_t every = most == 0 ? 1 : (counts[i] + most - 1) / most;
      step_through(FORK, draw(every), every, &forks);
    }
    printf("%s: %lu instructions so far, %lu signals, %lu forks\n", doing,
           (unsigned long)instructions, (unsigned long)raises, (unsigned long)forks);
  }
  kill(traced, SIGKILL);
  printf("FIGURES instructions=%lu raised=%lu forks=%lu blocked=%lu\n", (unsigned long)instructions,
         (unsigned long)raises, (unsigned long)forks, (unsigned long)blocked);
  CHECK(raises > 1000 && forks > 0, "nothing was tried");
  return 0;
}
#endif
