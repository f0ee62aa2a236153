/* options_target.c - the program that options.py runs: some work of every tier, in a child process as
 * well, and "works" on stdout when it was done right. With an argument it prints malloc_info. */
#include "api_test.h"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

static bool work(void) {
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    unsigned char *p = malloc(opaque_size(test_sizes[i]));
    if (p == NULL) return false;
    fill_block(p, test_sizes[i], 1);
    p = realloc(p, test_sizes[i] * 2);
    if (p == NULL || !block_is_filled(p, test_sizes[i], 1)) return false;
    free(p);
  }
  return true;
}

int main(int argc, char **argv) {
  (void)argv;
  require_expected_allocator();
  if (argc > 1) {
    static void *blocks[30];
    for (int i = 0; i < 30; i++) blocks[i] = malloc((size_t)1 << (i % 24));
    int result = malloc_info(0, stdout);
    for (int i = 0; i < 30; i++) free(blocks[i]);
    return result;
  }
  pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || !work()) return 1;
  puts("works");
  return 0;
}
