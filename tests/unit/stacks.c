/* stacks.c - the stack that a sample is kept with, beside what glibc's backtrace() finds; and tables with mistakes in them. */
#include "unit_test.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "stack/cfi.h"
#include "stack/expression.h"
#include "stack/object.h"
#include "stack/reach.h"
#include "stack/rules_cache.h"
#include "stack/stack.h"

#if STACK_HAS_TABLES && defined(DLFO_STRUCT_HAS_EH_DBASE) /* glibc 2.35: tables are found */
#define HAS_TABLES 1
#include <execinfo.h>
#include <gnu/libc-version.h>
#else
#define HAS_TABLES 0
#endif

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

enum { MOST = 128 };
static uintptr_t ours[MOST];
static unsigned ours_count;
#if HAS_TABLES
static void *theirs[MOST];
static unsigned theirs_count;
#endif
static _Thread_local volatile unsigned sink;

/* Both from one place: they differ in their first entry, which lies in this function. */
static NOINLINE void take_both(void) {
  ours_count = stack_take(ours, MOST, true);
#if HAS_TABLES
  theirs_count = (unsigned)backtrace(theirs, MOST);
#if defined(__SANITIZE_ADDRESS__) ||                                                               \
    defined(__SANITIZE_THREAD__) /* it has a function of its own in between */
  theirs_count--;
  memmove(theirs, theirs + 1, theirs_count * sizeof theirs[0]);
#endif
#endif
  sink++;
}

/* `least`: frames that there have to be. */
static void same(unsigned least) {
#if HAS_TABLES
  /* glibc's list of a thread's stack lacks clone() on these, which the thread began in. */
#if defined(__riscv) || defined(__powerpc64__)
  if (ours_count == theirs_count + 1) ours_count--;
#endif
  if (ours_count != theirs_count || ours_count < least) {
    for (unsigned i = 0; i < ours_count || i < theirs_count; i++)
      fprintf(stderr, "%u: %p %p\n", i, i < ours_count ? (void *)ours[i] : NULL,
              i < theirs_count ? theirs[i] : NULL);
  }
  assert_int_equal(ours_count, theirs_count);
  assert_true(ours_count >= least);
  for (unsigned i = 1; i < ours_count; i++) assert_ptr_equal((void *)ours[i], theirs[i]);
#else
  (void)least;
#endif
}

static NOINLINE unsigned deep(int levels) {
  if (levels == 0) take_both();
  else sink += deep(levels - 1);
  return sink++;
}

static void calls_are_followed(void **state) {
  (void)state;
  take_both();
  same(3);
  deep(1);
  same(5);
  deep(40);
  same(43);
}

static void a_deep_stack_is_cut(void **state) {
  (void)state;
  deep(5000);
  if (HAS_TABLES) assert_int_equal(ours_count, MOST);
  uintptr_t few[3], more[4] = {0, 0, 0, 7};
  assert_true(stack_take(few, 0, true) == 0);
  assert_true(stack_take(more, 3, true) <= 3);
  assert_int_equal(more[3], 7);
}

/* The stack pointer moves by a number that no table can have. */
static NOINLINE int with_variable_array(int bytes) {
  volatile char *array = __builtin_alloca((size_t)bytes);
  array[0] = (char)bytes;
  take_both();
  return array[0];
}

/* The stack is aligned anew. */
static NOINLINE int with_aligned_array(int value) {
  _Alignas(256) volatile char array[512];
  array[value] = 1;
  take_both();
  return array[value] + with_variable_array(value + 1);
}

static void frames_of_any_shape_are_followed(void **state) {
  (void)state;
  for (int bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
    with_variable_array(bytes);
    same(4);
  }
  with_aligned_array(3);
  same(5);
}

static int compare(const void *a, const void *b) {
  take_both();
  return *(const int *)a - *(const int *)b;
}

static void callbacks_of_libc_are_followed(void **state) {
  (void)state;
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof numbers[0], compare);
  same(5);
}

#if defined(__x86_64__) && HAS_TABLES
/* glibc's reads behind the code that it knows nothing of. */
static NOINLINE void take_ours(void) {
  ours_count = stack_take(ours, MOST, true);
  sink++;
}

/* As CPython's trampolines: no table, no frame pointer. */
static void code_without_a_table_is_followed(void **state) {
  (void)state;
  static const uint8_t trampoline[] = {0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
                                       0xff, 0xd7,             /* call *%rdi */
                                       0x48, 0x83, 0xc4, 0x08, 0xc3};
  enum { PAGE = 4096, BEHIND_CALL = 6 };
  /* Also at a page's end, behind which nothing can be read. */
  uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(pages, MAP_FAILED);
  size_t places[] = {0, 100, PAGE - sizeof trampoline};
  for (size_t i = 0; i < 3; i++) memcpy(pages + places[i], trampoline, sizeof trampoline);
  assert_int_equal(mprotect(pages, PAGE, PROT_READ | PROT_EXEC), 0);
  assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
  take_ours();
  unsigned outside = ours_count;
  uintptr_t beyond = ours[2]; /* the caller of this function */
  for (size_t i = 0; i < 3; i++) {
    void (*volatile call)(void (*)(void)) =
        (void (*)(void (*)(void)))(uintptr_t)(pages + places[i]);
    call(take_ours);
    assert_int_equal(ours_count, outside + 1);
    assert_ptr_equal((void *)ours[1], pages + places[i] + BEHIND_CALL);
    assert_ptr_equal((void *)ours[3], (void *)beyond);
  }
  munmap(pages, 2 * PAGE);
}
#endif

static void handler(int number) {
  (void)number;
  take_both();
}

static NOINLINE void raise_here(void) {
  raise(SIGUSR1);
  sink++;
}

/* On aarch64 the kernel's code that returns from a signal has no table: what interrupted is the stack's end, of which the handler is
 * told at least. */
static void same_behind_signal(void) {
#if defined(__x86_64__)
  same(7);
#elif HAS_TABLES
  assert_true(ours_count >= 2);
  assert_ptr_equal((void *)ours[1], theirs[1]);
#endif
}

static void signal_frames_are_crossed(void **state) {
  (void)state;
  static char other_stack[64 * 1024];
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR1, &action, NULL);
  raise_here();
  same_behind_signal();
  stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  assert_int_equal(sigaltstack(&stack, NULL), 0);
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, NULL);
  raise_here();
  same_behind_signal();
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, NULL);
}

#if HAS_TABLES /* musl has no coroutines */

static ucontext_t main_context, other_context;

static void coroutine(void) {
  deep(2);
  sink++;
}

/* Above a coroutine's stack may be nothing. */
static void stacks_of_coroutines_end(void **state) {
  (void)state;
  size_t page = os_page_size(), bytes = 16 * page;
  char *memory =
      mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  munmap(memory + bytes, page);
  assert_int_equal(getcontext(&other_context), 0);
  other_context.uc_stack = (stack_t){.ss_sp = memory, .ss_size = bytes};
  other_context.uc_link = &main_context;
  makecontext(&other_context, coroutine, 0);
  assert_int_equal(swapcontext(&main_context, &other_context), 0);
  assert_true(ours_count >= 4);
  for (unsigned i = 1; i < 4; i++) assert_ptr_equal((void *)ours[i], theirs[i]);
  munmap(memory, bytes);
}

#endif

static void *in_thread(void *levels) {
  for (int i = 0; i < 3; i++) {
    deep((int)(intptr_t)levels);
    same((unsigned)(intptr_t)levels + 2);
  }
  return levels;
}

static void threads_are_followed_to_their_start(void **state) {
  (void)state;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  for (intptr_t i = 0; i < 10; i++) {
    pthread_t id;
    void *done;
    size_t page = os_page_size() < 16384 ? 16384 : os_page_size();
    pthread_attr_setstacksize(&attributes, 131072 + (size_t)i * page);
    assert_int_equal(pthread_create(&id, &attributes, in_thread, (void *)(i + 1)), 0);
    pthread_join(id, &done);
    assert_ptr_equal(done, (void *)(i + 1));
  }
  pthread_attr_destroy(&attributes);
}

/* --- all at once --------------------------------------------------------------------------------- */

static atomic_bool stop;
static _Atomic unsigned wrong;

static NOINLINE unsigned deep_of_thread(int levels, uintptr_t *addresses) {
  unsigned count =
      levels == 0 ? stack_take(addresses, MOST, true) : deep_of_thread(levels - 1, addresses);
  sink++;
  return count;
}

static void *take_for_ever(void *seed) {
  uint64_t random = (uintptr_t)seed;
  while (!atomic_load(&stop)) {
    uintptr_t addresses[MOST];
    int levels = (int)random_below(&random, 60);
    unsigned count = deep_of_thread(levels, addresses);
    if (HAS_TABLES && count < (unsigned)levels) atomic_fetch_add(&wrong, 1);
  }
  return NULL;
}

/* Rules are kept and replaced by all at once, while objects come and go. */
static void threads_do_not_mislead_each_other(void **state) {
  (void)state;
  pthread_t ids[4];
  for (uintptr_t i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&ids[i], NULL, take_for_ever, (void *)(i + 1)), 0);
  for (int i = 0; i < 200; i++) {
    void *object = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    usleep(1000);
    if (object != NULL) dlclose(object);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
  assert_int_equal(atomic_load(&wrong), 0);
}

/* --- tables with mistakes ------------------------------------------------------------------------ */

#if HAS_TABLES

struct program {
  const uint8_t *table; /* .eh_frame_hdr */
  uintptr_t start, end; /* of the segment that it lies in */
};

static int find_program(struct dl_phdr_info *info, size_t size, void *argument) {
  struct program *program = argument;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_GNU_EH_FRAME)
      program->table = (const uint8_t *)(info->dlpi_addr + header->p_vaddr);
  }
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_LOAD && (uintptr_t)program->table - start < header->p_memsz) {
      program->start = start;
      program->end = start + header->p_memsz;
    }
  }
  return 1; /* the first is the program */
}

static void evaluate(const struct cfi_object *object, const struct rule *rule) {
  uintptr_t registers[REGISTERS], stack[64], value;
  struct reach reach = {.low = (uintptr_t)stack, .high = (uintptr_t)(stack + 64), .asked = 1000};
  for (int i = 0; i < REGISTERS; i++) registers[i] = (uintptr_t)(stack + 8);
  memset(stack, 0, sizeof stack);
  if (rule->kind == RULE_AT_EXPR || rule->kind == RULE_VALUE_EXPR)
    (void)expression_value(object, rule, registers, &reach, 0, &value);
}

/* Between variables there may be bytes that AddressSanitizer does not let memcpy read. */
__attribute__((no_sanitize("address", "thread"))) static void copy_all(char *to, uintptr_t from,
                                                                       size_t bytes) {
  const volatile char *source = (const volatile char *)from;
  for (size_t i = 0; i < bytes; i++) to[i] = source[i];
}

/* A copy of the program's tables between pages that cannot be read, with some bytes changed: the reader stays inside. Code is
 * looked up as far from the copy as from the original. */
static void mistakes_in_tables_are_survived(void **state) {
  (void)state;
  struct program program = {0};
  dl_iterate_phdr(find_program, &program);
  assert_true(program.start != 0);
  size_t page = os_page_size(), bytes = program.end - program.start;
  size_t room = (bytes + page - 1) / page * page;
  char *memory = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  char *copy = memory + page + (room - bytes); /* its end is the end of what can be read */
  assert_int_equal(mprotect(memory + page, room, PROT_READ | PROT_WRITE), 0);
  struct cfi_object object = {(uintptr_t)copy, (uintptr_t)copy + bytes,
                              (const uint8_t *)copy + ((uintptr_t)program.table - program.start),
                              NULL};
  uintptr_t distance = (uintptr_t)copy - program.start;
  uint64_t random = 3, found = 0;
  for (int round = 0; round < 300; round++) {
    copy_all(copy, program.start, bytes);
    size_t from = (size_t)((const char *)object.table - copy);
    for (int i = 0; i < 400 * (round % 20); i++)
      copy[from + random_below(&random, bytes - from)] = (char)random_below(&random, 256);
    if (round % 3 == 1) /* the numbers that lengths are made of */
      for (int i = 0; i < 50; i++)
        memset(copy + from + random_below(&random, bytes - from - 8), round % 2 ? 0xff : 0, 8);
    for (int look = 0; look < 400; look++) {
      struct frame_rules rules;
      uintptr_t code =
          (uintptr_t)mistakes_in_tables_are_survived + random_below(&random, 40000) - 20000;
      if (!cfi_find(&object, code + distance, &rules)) continue;
      found++;
      evaluate(&object, &rules.cfa);
      for (int i = 0; i < REGISTERS; i++) evaluate(&object, &rules.registers[i]);
    }
  }
  assert_true(found > 1000); /* the copy is understood where it is whole */
  munmap(memory, room + 2 * page);
}

/* Those of libc, in which each stack begins, after a walk to which no place was known. Not this program's: what is called here reads
 * constants beside them. */
static void tables_leave_memory_after_a_walk(void **state) {
  (void)state;
  struct dl_find_object libc;
  size_t page = os_page_size(), resident;
  assert_true(object_of((uintptr_t)gnu_get_libc_version, &libc)); /* sanitizers do not replace it */
  char *first = (char *)((uintptr_t)libc.dlfo_eh_frame / page * page);
  sink += *(const volatile uint8_t *)libc.dlfo_eh_frame;
  if (!os_resident_part(first, page, &resident) || resident == 0)
    skip(); /* the system does not say */
  memset(rules_entries, 0, sizeof rules_entries);
  unsigned count = stack_take(ours, MOST, true);
  assert_true(os_resident_part(first, page, &resident));
  assert_int_equal(resident, 0);
  take_both();
  same(3);
  assert_true(count >= 3);
}

#if defined(HAS_HOLES)
/* Or this program would be no more than unit.stacks. */
static void segments_are_told_alone(void **state) {
  (void)state;
  struct program program = {0};
  struct dl_find_object of_code, of_table;
  dl_iterate_phdr(find_program, &program);
  assert_true(object_of((uintptr_t)segments_are_told_alone, &of_code));
  assert_true(object_of((uintptr_t)program.table, &of_table));
  assert_ptr_not_equal(of_code.dlfo_map_start, of_table.dlfo_map_start);
}
#endif

#endif

/* What ends at the main thread's control block may be a coroutine's stack that is gone by the next walk. */
static void no_stack_ends_at_the_main_threads_block(void **state) {
  (void)state;
  uintptr_t below = os_thread_pointer() - 64, page = os_page_size();
  struct reach reach = reach_of(below);
  assert_int_equal(reach.high, (below / page + 1) * page);
}

int main(void) {
#if !STACK_HAS_TABLES
  puts("skipped: samples have no stacks on this machine");
  return 77;
#endif
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(calls_are_followed),
    cmocka_unit_test(a_deep_stack_is_cut),
    cmocka_unit_test(frames_of_any_shape_are_followed),
    cmocka_unit_test(callbacks_of_libc_are_followed),
#if defined(__x86_64__) && HAS_TABLES
    cmocka_unit_test(code_without_a_table_is_followed),
#endif
    cmocka_unit_test(signal_frames_are_crossed),
    cmocka_unit_test(threads_are_followed_to_their_start),
    cmocka_unit_test(threads_do_not_mislead_each_other),
    cmocka_unit_test(no_stack_ends_at_the_main_threads_block),
#if HAS_TABLES
    cmocka_unit_test(stacks_of_coroutines_end),
    cmocka_unit_test(mistakes_in_tables_are_survived),
    cmocka_unit_test(tables_leave_memory_after_a_walk),
#if defined(HAS_HOLES)
    cmocka_unit_test(segments_are_told_alone),
#endif
#endif
  };
  return cmocka_run_group_tests_name("stacks", tests, NULL, NULL);
}
