/* work.c - a program of the shape that the first argument names: it allocates and frees in ways that lead to each system call of the
 * allocator, and ends with 0. Run beside libraries that put functions of their own in the place of libc's (test_shims.py). */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 2000, THREADS = 4 };

static void *checked(void *block) {
  if (block == NULL) abort();
  return block;
}

/* Small, large and huge blocks; half of them are freed first, so that pages inside slabs go back. */
static void *work(void *unused) {
  char **blocks = checked(calloc(BLOCKS, sizeof *blocks));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      size_t size = i % 100 == 99 ? (size_t)3 << 20 : i % 10 == 9 ? 150000 : (size_t)16 << i % 10;
      blocks[i] = checked(malloc(size));
      blocks[i][0] = blocks[i][size - 1] = (char)i;
      if (i % 20 == 19) blocks[i] = checked(realloc(blocks[i], size * 2));
    }
    for (int i = 0; i < BLOCKS; i += 2) free(blocks[i]);
    if (round == 1) malloc_trim(0);
    for (int i = 1; i < BLOCKS; i += 2) free(blocks[i]);
  }
  free(blocks);
  return unused;
}

static void run_threads(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, NULL) != 0) abort();
  work(NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void run_forks(void) {
  run_threads();
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      work(NULL);
      exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
  }
}

/* Memory that a thread keeps beside is given back by the helper thread. */
static void *wait_a_while(void *unused) {
  usleep(1500000);
  return unused;
}

static void run_idle(void) {
  pthread_t sleeper;
  if (pthread_create(&sleeper, NULL, wait_a_while, NULL) != 0) abort();
  run_threads();
  pthread_join(sleeper, NULL);
  work(NULL);
}

int main(int argc, char **argv) {
  const char *shape = argc > 1 ? argv[1] : "";
  if (strcmp(shape, "one") == 0) work(NULL);
  else if (strcmp(shape, "threads") == 0) run_threads();
  else if (strcmp(shape, "forks") == 0) run_forks();
  else if (strcmp(shape, "idle") == 0) run_idle();
  else return 2;
  malloc_stats(); /* to stderr */
  puts("done");
  return 0;
}
