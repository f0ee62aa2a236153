/* beyond_memory.c - blocks longer than all memory and swap come as often as such mappings do: with vm.overcommit_memory=0 they are refused,
 * with ENOMEM, and the program may go on. No page of them is written.
 */
#include "api_test.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static size_t all_memory(void) {
  struct sysinfo info;
  assert_int_equal(sysinfo(&info), 0);
  return ((size_t)info.totalram + info.totalswap) * info.mem_unit;
}

/* A page more would do, but swap may come while the test runs. */
static size_t beyond(void) { return opaque_size(all_memory() + 64 * ((size_t)1 << 30)); }

static bool kernel_grants(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  assert_int_equal(munmap(p, size), 0);
  return true;
}

static void check(void *p) {
  int error = errno;
  assert_int_equal(p != NULL, kernel_grants(beyond()));
  if (p == NULL) assert_int_equal(error, ENOMEM);
  free(p);
  errno = 0;
}

static void each_function_answers_as_the_kernel_does(void **state) {
  (void)state;
  void *aligned = NULL;
  errno = 0;
  check(opaque(malloc(beyond())));
  check(opaque(calloc(1, beyond())));
  check(opaque(realloc(NULL, beyond())));
  check(opaque(aligned_alloc(4096, beyond())));
  check(opaque(memalign((size_t)16 << 20, beyond())));
  errno = posix_memalign(&aligned, 64, beyond());
  check(opaque(aligned));
}

/* What the block had before is in memory already. */
static void a_block_that_cannot_grow_so_far_is_as_it_was(void **state) {
  static const size_t sizes[] = {100, 20000, 300000, 5 * MIB};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *p = malloc(sizes[i]);
    assert_non_null(p);
    fill_block(p, sizes[i], i);
    errno = 0;
    unsigned char *longer = realloc(p, beyond());
    assert_int_equal(longer != NULL, kernel_grants(beyond()));
    if (longer == NULL) assert_int_equal(errno, ENOMEM);
    else p = longer;
    assert_true(block_is_filled(p, sizes[i], i));
    free(p);
  }
}

/* Each is short enough, and the kernel may join their mappings to one that it would not fork. */
static void many_blocks_longer_together_do_not_keep_fork_away(void **state) {
  enum { BLOCKS = 6 };
  void *blocks[BLOCKS];
  size_t size = opaque_size(all_memory() / 4);
  (void)state;
  if (!expects("hakmem")) return; /* libc's may be refused */
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = opaque(malloc(size));
    assert_true(blocks[i] != NULL || !kernel_grants(size)); /* vm.overcommit_memory=2 */
  }
  pid_t child = fork();
  if (child == 0) _exit(7);
  int status;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(WEXITSTATUS(status), 7);
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

int main(void) {
  require_expected_allocator();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_function_answers_as_the_kernel_does),
      cmocka_unit_test(a_block_that_cannot_grow_so_far_is_as_it_was),
      cmocka_unit_test(many_blocks_longer_together_do_not_keep_fork_away),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
