/* os_calls.c - the lock, the lines on stderr, and the wrappers of system calls. */
#include "unit_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "observe/report.h"
#include "os/call.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"

/* --- lock ----------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000 };
static struct lock shared_lock;
static long counter; /* not atomic: the lock is what keeps it right */

static void *count_up(void *unused) {
  for (int i = 0; i < ROUNDS; i++) {
    lock_acquire(&shared_lock);
    counter++;
    lock_release(&shared_lock);
  }
  return unused;
}

static void one_thread_at_a_time_holds_a_lock(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  counter = 0;
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(counter, (long)THREADS * ROUNDS);
  assert_int_equal(atomic_load(&shared_lock.state), 0);
}

static void *try_lock(void *unused) {
  (void)unused;
  bool got = lock_try(&shared_lock);
  if (got) lock_release(&shared_lock);
  return (void *)(uintptr_t)got;
}

static void *wait_for_lock(void *unused) {
  errno = 1234;
  lock_acquire(&shared_lock);
  counter = errno == 1234 ? counter + 1 : -1000;
  lock_release(&shared_lock);
  return unused;
}

static void a_held_lock_is_refused_or_waited_for(void **state) {
  (void)state;
  pthread_t thread;
  void *got = NULL;
  assert_true(lock_try(&shared_lock));
  assert_int_equal(pthread_create(&thread, NULL, try_lock, NULL), 0);
  pthread_join(thread, &got);
  assert_null(got);
  counter = 0;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
  usleep(20000); /* long enough that it sleeps in the kernel, usually; right in any case */
  assert_int_equal(counter, 0);
  lock_release(&shared_lock);
  pthread_join(thread, NULL);
  assert_int_equal(counter, 1);
}

static bool held_by_other;

static void *see_holder(void *unused) {
  held_by_other = lock_holder(&shared_lock) == LOCK_OTHERS;
  return unused;
}

static void a_lock_held_for_a_fork_can_be_entered_and_taken_away(void **state) {
  (void)state;
  pthread_t thread;
  uint32_t patience = LOCK_PATIENCE_MS;
  lock_acquire_for_fork(&shared_lock, &patience, false);
  assert_int_equal(lock_holder(&shared_lock), LOCK_MY_FORKS);
  assert_int_equal(pthread_create(&thread, NULL, see_holder, NULL), 0);
  pthread_join(thread, NULL);
  assert_true(held_by_other);
  /* Its holder is let in, and holds it still when it leaves. */
  lock_acquire(&shared_lock);
  lock_release(&shared_lock);
  assert_true(lock_try(&shared_lock));
  /* Nobody takes it away while it is inside. */
  counter = 0;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
  usleep(5 * LOCK_PATIENCE_MS * 1000);
  assert_int_equal(counter, 0);
  lock_release(&shared_lock);
  pthread_join(thread, NULL); /* without a release by us */
  assert_int_equal(counter, 1);
  lock_release_after_fork(&shared_lock); /* not ours any more */
  assert_int_equal(atomic_load(&shared_lock.state), 0);
}

static void a_fork_waits_for_a_lock_only_for_a_while_if_it_must(void **state) {
  (void)state;
  pthread_t thread;
  uint32_t patience = LOCK_PATIENCE_MS;
  /* Held by the thread itself, which a signal handler has interrupted. */
  lock_acquire(&shared_lock);
  lock_acquire_for_fork(&shared_lock, &patience, true);
  assert_int_equal(lock_holder(&shared_lock), LOCK_MINE);
  assert_true(lock_is_whole_in_child(&shared_lock));
  assert_int_equal(lock_holder(&shared_lock), LOCK_MINE);
  counter = 0;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
  usleep(20000);
  lock_release(&shared_lock);
  pthread_join(thread, NULL);
  assert_int_equal(counter, 1);
  /* Another's, who keeps it. */
  atomic_store(&shared_lock.state, LOCK_HELD);
  lock_acquire_for_fork(&shared_lock, &patience, true);
  assert_int_equal(patience, 0);
  assert_int_equal(lock_holder(&shared_lock), LOCK_OTHERS);
  assert_false(lock_is_whole_in_child(&shared_lock));
  assert_int_equal(atomic_load(&shared_lock.state), 0);
  /* Another fork's: it is taken away. */
  atomic_store(&shared_lock.state, LOCK_HELD | LOCK_FOR_FORK);
  lock_acquire_for_fork(&shared_lock, &patience, false);
  assert_true(lock_is_whole_in_child(&shared_lock));
  assert_int_equal(atomic_load(&shared_lock.state), 0);
}

/* --- report --------------------------------------------------------------------------------------- */

static void write_numbers(void *unused) {
  (void)unused;
  struct report line;
  report_start(&line);
  report_number(&line, 0);
  report_text(&line, " ");
  report_number(&line, UINT64_MAX);
  report_text(&line, " ");
  report_pointer(&line, (const void *)(uintptr_t)0x7f0012345678);
  report_text(&line, " ");
  report_pointer(&line, NULL);
  report_text(&line, " ");
  report_bytes(&line, "abcdef", 3);
  report_end(&line);
}

static void write_too_much(void *unused) {
  (void)unused;
  struct report line;
  report_start_bare(&line);
  for (int i = 0; i < 1000; i++) report_text(&line, "0123456789");
  report_end(&line);
}

static void lines_are_what_was_put_together(void **state) {
  (void)state;
  char text[4096];
  capture_stderr(write_numbers, NULL, text, sizeof text);
  assert_string_equal(text, "hakmem: 0 18446744073709551615 0x7f0012345678 0x0 abc\n");
}

static void long_lines_are_cut_and_end(void **state) {
  (void)state;
  char text[16384];
  size_t length = capture_stderr(write_too_much, NULL, text, sizeof text);
  assert_true(length >= 256 && length < 2000);
  assert_int_equal(text[length - 1], '\n');
  assert_ptr_equal(strchr(text, '\n'), text + length - 1);
}

static void report_in_a_child(void *unused) {
  (void)unused;
  pid_t child = fork();
  if (child == 0) report_bad_pointer("free", (const void *)(uintptr_t)0xabc0, REPORT_FOREIGN);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void a_bad_pointer_is_one_line_and_abort(void **state) {
  (void)state;
  char text[4096];
  capture_stderr(report_in_a_child, NULL, text, sizeof text);
  assert_string_equal(text, "hakmem: free(): 0xabc0: not a block of this allocator\n");
}

/* --- system calls --------------------------------------------------------------------------------- */

static void memory_calls_are_counted_and_keep_errno(void **state) {
  (void)state;
  errno = 1234;
  uint64_t mapped = atomic_load(&os_counts.mmap), unmapped = atomic_load(&os_counts.munmap);
  size_t bytes = 4 * MIB;
  char *p = os_map(bytes);
  assert_non_null(p);
  assert_true(block_is_zero(p, bytes));
  memset(p, 1, bytes);
  assert_null(os_map_at(p + MIB, MIB)); /* taken: never mapped over */
  assert_int_equal(p[MIB], 1);
  assert_true(os_decommit(p, bytes));
  assert_true(block_is_zero(p, bytes));
  assert_true(os_unmap(p, bytes));
  assert_ptr_equal(os_map_at(p, MIB), p);
  assert_true(os_unmap(p, MIB));
  assert_int_equal(atomic_load(&os_counts.mmap) - mapped, 3);
  assert_int_equal(atomic_load(&os_counts.munmap) - unmapped, 2);
  assert_int_equal(errno, 1234);
}

/* Where the kernel takes several ranges at once (6.13 and later), locked memory among them is left to a call of its own, and
 * other calls take several as before. */
static void a_locked_page_leaves_the_rest_to_one_call(void **state) {
  (void)state;
  enum { RANGES = 32, LOCKED = 5 };
  size_t page = os_page_size();
  struct os_range ranges[RANGES];
  char *p = os_map(2 * RANGES * page);
  assert_non_null(p);
  for (int i = 0; i < RANGES; i++) ranges[i] = (struct os_range){p + 2 * (size_t)i * page, page};
  uint64_t calls = atomic_load(&os_counts.madvise);
  assert_true(os_decommit_all(ranges, RANGES));
  if (atomic_load(&os_counts.madvise) - calls > 1) {
    print_message("skipped: the kernel takes one range at a time\n");
    skip();
  }
  for (int locked = 0; locked <= LOCKED;
       locked += LOCKED) { /* the first of all, and one in the middle */
    /* Past libc's function, in whose place a sanitizer has one that does nothing. */
    if (syscall(SYS_mlock, ranges[locked].address, page) != 0) {
      print_message("skipped: no memory may be locked\n");
      skip();
    }
    memset(p, 1, 2 * RANGES * page);
    calls = atomic_load(&os_counts.madvise);
    assert_false(os_decommit_all(ranges, RANGES));
    assert_in_range(atomic_load(&os_counts.madvise) - calls, 2, 4);
    for (int i = 0; i < RANGES; i++)
      assert_int_equal(*(char *)ranges[i].address, i == locked ? 1 : 0);
    assert_int_equal(syscall(SYS_munlock, ranges[locked].address, page), 0);
    calls = atomic_load(&os_counts.madvise);
    assert_true(os_decommit_all(ranges, RANGES));
    assert_int_equal(atomic_load(&os_counts.madvise) - calls, 1);
  }
  assert_true(os_unmap(p, 2 * RANGES * page));
}

static void moved_pages_keep_their_bytes(void **state) {
  (void)state;
  char *from = os_map(MIB), *to = os_map(4 * MIB);
  assert_true(from != NULL && to != NULL);
  fill_block(from, MIB, 6);
  assert_true(os_move(from, MIB, to, 4 * MIB));
  assert_true(block_is_filled(to, MIB, 6));
  assert_true(block_is_zero(to + MIB, 3 * MIB));
  assert_true(os_unmap(to, 4 * MIB));
}

static size_t resident_part(const char *memory, size_t bytes) {
  size_t resident = 1;
  assert_true(os_resident_part(memory, bytes, &resident));
  return resident;
}

static void resident_pages_are_counted(void **state) {
  (void)state;
  size_t page = os_page_size(), bytes = 1000 * page;
  if (pages_are_the_hosts()) skip();
  char *memory = os_map(bytes);
  assert_non_null(memory);
  os_advise_small(memory, bytes);
  assert_int_equal(resident_part(memory, bytes), 0);
  memory[0] = memory[600 * page] = memory[999 * page] = 1;
  assert_int_equal(resident_part(memory, bytes), 3 * page);
  assert_int_equal(resident_part(memory + page, 600 * page), page);
  assert_true(os_unmap(memory, bytes));
  errno = 1234;
  assert_int_equal(resident_part(memory, bytes), 0);
  assert_int_equal(errno, 1234);
}

/* A page of a file that nobody has changed leaves memory and comes back; one that was written to has nothing to come back from. */
static void only_unchanged_pages_of_files_go(void **state) {
  (void)state;
  size_t page = os_page_size();
  if (pages_are_the_hosts()) skip();
  FILE *file = tmpfile();
  assert_non_null(file);
  for (size_t i = 0; i < 2 * page; i++) assert_int_equal(fputc('f', file), 'f');
  assert_int_equal(fflush(file), 0);
  char *of_file = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
  char *of_none = os_map(2 * page);
  assert_ptr_not_equal(of_file, MAP_FAILED);
  assert_non_null(of_none);
  memset(of_none, 'n', 2 * page);
  of_file[page] = 'w';
  assert_int_equal(of_file[0], 'f');
  assert_int_equal(resident_part(of_file, 2 * page), 2 * page);
  errno = 1234;
  os_drop_file_pages((struct os_range[]){{of_file, 2 * page}, {of_none, 2 * page}}, 2);
  assert_int_equal(errno, 1234);
  assert_int_equal(resident_part(of_file, page), 0);
  assert_int_equal(resident_part(of_file + page, page), page);
  assert_int_equal(resident_part(of_none, 2 * page), 2 * page);
  assert_true(of_file[0] == 'f' && of_file[page] == 'w' && of_file[page + 1] == 'f');
  for (size_t i = 0; i < 2 * page; i++) assert_int_equal(of_none[i], 'n');
  assert_int_equal(munmap(of_file, 2 * page), 0);
  assert_true(os_unmap(of_none, 2 * page));
  assert_int_equal(fclose(file), 0);
}

static void the_environment_is_found(void **state) {
  (void)state;
  setenv("HAKMEM_TEST_VALUE", "here", 1);
  assert_string_equal(os_env("HAKMEM_TEST_VALUE"), "here");
  setenv("HAKMEM_TEST_VALUE", "", 1);
  assert_string_equal(os_env("HAKMEM_TEST_VALUE"), "");
  unsetenv("HAKMEM_TEST_VALUE");
  assert_null(os_env("HAKMEM_TEST_VALUE"));
  assert_null(os_env("HAKMEM_TEST_VALU"));
  assert_false(os_is_secure());
  assert_int_equal(os_page_size(), sysconf(_SC_PAGESIZE));
  assert_true(os_resident_bytes() > 100 * KIB);
}

/* --- fault injection ------------------------------------------------------------------------------ */

static void faults_come_where_they_were_ordered(void **state) {
  (void)state;
  os_fault_reset();
  os_fault_fail_nth(2);
  char *first = os_map(MIB);
  errno = 1234;
  assert_non_null(first);
  assert_null(os_map(MIB));
  assert_int_equal(errno, 1234);
  assert_true(os_decommit(first, MIB));
  assert_int_equal(os_fault_calls(), 3);
  assert_int_equal(os_fault_injected(), 1);
  os_fault_reset();
  assert_int_equal(os_fault_calls(), 0);
  os_fault_fail_from(1);
  assert_false(os_unmap(first, MIB));
  assert_false(os_decommit(first, MIB));
  first[0] = 1; /* still there */
  os_fault_reset();
  assert_true(os_unmap(first, MIB));
  int failed = 0;
  os_fault_random(7, 300);
  for (int i = 0; i < 1000; i++) {
    char *p = os_map(4096);
    failed += p == NULL;
    while (p != NULL && !os_unmap(p, 4096)) failed++;
  }
  assert_int_equal(os_fault_injected(), failed);
  assert_in_range(failed, 300, 900);
  os_fault_reset();
}

unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type); /* the linker calls it so */

/* As on kernels before 6.3. */
unsigned long __wrap_getauxval(unsigned long type) {
  enum { RSEQ_FEATURE_SIZE = 27 };
  if (type != RSEQ_FEATURE_SIZE) return __real_getauxval(type);
  errno = ENOENT;
  return 0;
}

/* The first test: it is found out once. */
static void to_ask_for_the_node_keeps_errno(void **state) {
  (void)state;
  errno = 1234;
  (void)os_node();
  assert_int_equal(errno, 1234);
}

#if defined(__GLIBC__)
enum { BEFORE_CODE = 64 };

/* An address in the function that frees a thread's storage, on a stack that has none else. */
static void *look_for_call(void *before_code) {
  const void *volatile words[64] = {NULL};
  bool before = os_is_in_loader();
  words[32] = (const char *)before_code + BEFORE_CODE + 8;
  bool seen = os_is_in_loader();
  return (void *)(uintptr_t)(!before && seen && words[32] != NULL);
}

static bool may_read_itself(void) {
  char from = 1, to = 0;
  struct iovec here = {&to, 1}, there = {&from, 1};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

static void that_libc_frees_a_thread_is_seen(void **state) {
  (void)state;
  pthread_t thread;
  void *seen = NULL;
  void *code = dlsym(RTLD_DEFAULT, "_dl_deallocate_tls");
  if (getauxval(AT_BASE) == 0 || code == NULL) {
    print_message("skipped: no dynamic loader\n");
    skip();
  }
  if (!may_read_itself()) {
    print_message("skipped: process_vm_readv is refused, as by an emulator\n");
    skip();
  }
  assert_int_equal(pthread_create(&thread, NULL, look_for_call, (char *)code - BEFORE_CODE), 0);
  pthread_join(thread, &seen);
  assert_non_null(seen);
}

enum { STACK_BYTES = 128 * 1024, LOOKS = 10000 };

static void *look_often(void *ends) {
  for (int i = 0; i < LOOKS; i++) (void)os_is_in_loader();
  atomic_store((atomic_bool *)ends, true);
  return NULL;
}

/* What lies behind a thread's stack may go at any time. */
static void the_look_at_the_stack_may_meet_its_end(void **state) {
  (void)state;
  char *stack =
      mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(stack, MAP_FAILED);
  atomic_bool ends = false;
  pthread_attr_t attributes;
  pthread_t thread;
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
  assert_int_equal(pthread_create(&thread, &attributes, look_often, &ends), 0);
  while (!atomic_load(&ends)) {
    assert_int_equal(mprotect(stack + STACK_BYTES, STACK_BYTES, PROT_NONE), 0);
    assert_int_equal(mprotect(stack + STACK_BYTES, STACK_BYTES, PROT_READ), 0);
  }
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  munmap(stack, 2 * STACK_BYTES);
}
#endif

/* By instructions that name the place: then a program that is linked to one place has a jump to the function under its name, which
 * all others get for the function's address. */
static void nobody_listens_in_a_program_that_takes_the_address(void **state) {
  (void)state;
  int (*volatile unmap)(void *, size_t) = munmap;
  int (*volatile advise)(void *, size_t, int) = madvise;
  /* Each binds it at its first call. */
  assert_int_equal(unmap(NULL, 0), -1);
  assert_int_equal(advise(NULL, 0, MADV_NORMAL), 0);
  assert_false(call_is_heard());
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(to_ask_for_the_node_keeps_errno),
#if defined(__GLIBC__)
    cmocka_unit_test(that_libc_frees_a_thread_is_seen),
    cmocka_unit_test(the_look_at_the_stack_may_meet_its_end),
#endif
    cmocka_unit_test(one_thread_at_a_time_holds_a_lock),
    cmocka_unit_test(a_held_lock_is_refused_or_waited_for),
    cmocka_unit_test(a_lock_held_for_a_fork_can_be_entered_and_taken_away),
    cmocka_unit_test(a_fork_waits_for_a_lock_only_for_a_while_if_it_must),
    cmocka_unit_test(lines_are_what_was_put_together),
    cmocka_unit_test(long_lines_are_cut_and_end),
    cmocka_unit_test(a_bad_pointer_is_one_line_and_abort),
    cmocka_unit_test(memory_calls_are_counted_and_keep_errno),
    cmocka_unit_test(a_locked_page_leaves_the_rest_to_one_call),
    cmocka_unit_test(nobody_listens_in_a_program_that_takes_the_address),
    cmocka_unit_test(moved_pages_keep_their_bytes),
    cmocka_unit_test(resident_pages_are_counted),
    cmocka_unit_test(only_unchanged_pages_of_files_go),
    cmocka_unit_test(the_environment_is_found),
    cmocka_unit_test(faults_come_where_they_were_ordered),
  };
  return cmocka_run_group_tests_name("os calls", tests, NULL, NULL);
}
