/* guarded.c - guarded samples: how many there are, what is said of them, and whose faults are whose. */
#include "unit_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap/heap.h"
#include "os/fault_handler.h"
#include "policy/options.h"
#include "sample/guarded.h"

#if HAK_FAST

int main(void) {
  printf("the fast variant has no samples\n");
  return 77;
}

#else

enum { BLOCKS = 1000, SIZE = 200 };

/* The next blocks of 40 bytes and more, all but one in e^40. */
static void guard_all(void) {
  hak_free(hak_malloc(1)); /* the options are read by then */
  SET_OPTION(GUARD_SAMPLE, 1);
  atomic_store(&samples.rate, 1);
  malloc_thread.sample_left = malloc_thread.sample_rest = 0;
  hak_free(hak_malloc(1));
}

static void at_most_so_many_are_guarded(void **state) {
  (void)state;
  static char *blocks[BLOCKS];
  size_t guarded = 0, page = os_page_size();
  guard_all();
  for (int round = 0; round < 3; round++, guarded = 0) {
    for (int i = 0; i < BLOCKS; i++) {
      assert_non_null(blocks[i] = hak_malloc(SIZE));
      memset(blocks[i], i, SIZE);
      guarded += guarded_has(blocks[i]);
    }
    assert_in_range(guarded, 1, 256 * KIB / page);
    assert_true(guarded_live_bytes() >= guarded * SIZE);
    for (int i = 0; i < BLOCKS; i++) {
      assert_int_equal(blocks[i][0], (char)i);
      hak_free(blocks[i]);
    }
  }
  assert_true(guarded_live_bytes() < SIZE); /* what the test itself asked for */
  uintptr_t bytes = atomic_load(&guarded_pages.bytes);
  assert_true(bytes <= 512 * KIB + page);
}

static void one_is_a_block_as_others(void **state) {
  (void)state;
  guard_all();
  for (size_t size = 40; size < 3000; size += 111) {
    char *block = hak_malloc(size);
    assert_true(guarded_has(block));
    assert_true(hak_owns(block) && hak_owns(block + size - 1));
    assert_false(hak_owns(block + size));
    assert_int_equal(hak_usable_size(block), size);
    assert_int_equal((uintptr_t)block % 16, 0);
    memset(block, 3, size);
    hak_free(block);
    assert_false(hak_owns(block));
    char *aligned = hak_aligned_alloc(512, size);
    assert_int_equal((uintptr_t)aligned % 512, 0);
    hak_free(aligned);
  }
}

static void a_freed_place_is_used_late(void **state) {
  (void)state;
  guard_all();
  char *block = hak_malloc(SIZE);
  hak_free(block);
  for (size_t i = 0; i + 1 < 256 * KIB / os_page_size(); i++) {
    char *next = hak_malloc(SIZE);
    assert_true(guarded_has(next));
    assert_true(((uintptr_t)next ^ (uintptr_t)block) >= os_page_size());
    hak_free(next);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which catch them, too */

/* --- whose faults ------------------------------------------------------------------------------------------- */

static void *theirs;
static volatile sig_atomic_t seen;

static void by_number(int number) { _exit(number == SIGSEGV ? 3 : 4); }

static void by_information(int number, siginfo_t *information, void *context) {
  (void)context;
  seen = number == SIGSEGV && information->si_addr == theirs;
  assert_int_equal(mprotect(theirs, os_page_size(), PROT_READ | PROT_WRITE), 0);
}

static bool not_ours(void *address, bool knows_write, bool is_write) {
  return address != theirs || (knows_write && !is_write);
}

/* In a child: a process has them caught once. */
static int with_handler(const struct sigaction *handler) {
  fflush(NULL);
  pid_t child = fork();
  int status = -1;
  if (child == 0) {
    seen = 0;
    theirs = mmap(NULL, os_page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, handler, NULL);
    os_catch_faults(not_ours);
    *(volatile char *)theirs = 1;
    _exit(seen ? 5 : 6);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void other_faults_go_where_they_went(void **state) {
  (void)state;
  struct sigaction none = {.sa_handler = SIG_DFL}, plain = {.sa_handler = by_number},
                   full = {.sa_sigaction = by_information, .sa_flags = SA_SIGINFO};
  int status = with_handler(&none);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  status = with_handler(&plain);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  status = with_handler(&full);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

/* --- two faults at once ------------------------------------------------------------------------------------- */

static char *freed;

static void *touch(void *wait_us) {
  usleep(*(useconds_t *)wait_us);
  return (void *)(intptr_t) * (volatile char *)freed;
}

/* Its stderr is full for a while: who tells first waits there, and the other's fault comes. */
static void touch_twice(int out) {
  static useconds_t first = 0, second = 100000;
  pthread_t thread;
  if (dup2(out, STDERR_FILENO) < 0) _exit(7);
  os_note_stderr();
  signal(SIGABRT, SIG_DFL); /* cmocka catches it */
  guard_all();
  freed = hak_malloc(SIZE);
  hak_free(freed);
  if (pthread_create(&thread, NULL, touch, &second) != 0) _exit(7);
  touch(&first);
}

static void a_report_is_told_to_its_end(void **state) {
  (void)state;
  static char text[256 * KIB]; /* a pipe has at least a page */
  int ends[2], status;
  assert_int_equal(pipe(ends), 0);
  int capacity = fcntl(ends[0], F_SETPIPE_SZ, 4 * KIB);
  assert_in_range(capacity, 1, sizeof text / 2);
  assert_int_equal(write(ends[1], text, (size_t)capacity), capacity);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    touch_twice(ends[1]);
    _exit(8);
  }
  close(ends[1]);
  usleep(400000);
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
    length += (size_t)got;
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  assert_non_null(memmem(text, length, "use after free", 14));
  assert_non_null(memmem(text, length, "had freed it here", 17));
  assert_non_null(memmem(text, length, "had allocated it here", 21));
}

/* First: in the child the places are made, and faults caught, anew. */
#define FAULTS                                                                                     \
  cmocka_unit_test(a_report_is_told_to_its_end), cmocka_unit_test(other_faults_go_where_they_went),

#else
#define FAULTS
#endif

int main(void) {
  const struct CMUnitTest tests[] = {FAULTS cmocka_unit_test(at_most_so_many_are_guarded),
                                     cmocka_unit_test(one_is_a_block_as_others),
                                     cmocka_unit_test(a_freed_place_is_used_late)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
