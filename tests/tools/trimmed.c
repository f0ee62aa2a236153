/* trimmed.c - threads that fill memory, free it, and then allocate one small block now and then, for tests of hakmem explain --trim.
 *
 * Usage: trimmed THREADS SLEEPERS. THREADS call malloc each 10 ms, as a program in its idle loop does; SLEEPERS never again. Prints
 * "ready PID 0" and ends when its standard input does, with "SIGNALS INTERRUPTED": how many of SIGRTMIN it got, and how many of its sleeps were cut short.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 1000, COUNT = 16 * 1024, PAUSE_NS = 10 * 1000 * 1000 };

static pthread_barrier_t filled;
static atomic_int signals, interrupted;

static void count_signal(int number) {
  (void)number;
  signals++;
}

static void fill(void) {
  char **blocks = malloc(COUNT * sizeof *blocks);
  if (blocks == NULL) abort();
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = malloc(SIZE);
    if (blocks[i] == NULL) abort();
    memset(blocks[i], 1, SIZE);
  }
  for (int i = 0; i < COUNT; i++) free(blocks[i]);
  free(blocks);
  pthread_barrier_wait(&filled);
}

static void *go_on(void *unused) {
  fill();
  for (;;) {
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    void *volatile block = malloc(24);
    free(block);
    if (nanosleep(&pause, NULL) != 0) interrupted++;
  }
  return unused;
}

static void *sleep_for_ever(void *unused) {
  fill();
  for (;;) pause();
  return unused;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1, sleepers = argc > 2 ? atoi(argv[2]) : 0;
  char end;
  signal(SIGRTMIN, count_signal);
  pthread_barrier_init(&filled, NULL, (unsigned)(threads + sleepers + 1));
  for (int i = 0; i < threads + sleepers; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, i < threads ? go_on : sleep_for_ever, NULL) != 0) abort();
  }
  pthread_barrier_wait(&filled);
  printf("ready %d 0\n", (int)getpid());
  fflush(stdout);
  while (read(0, &end, 1) != 0) continue;
  printf("%d %d\n", signals, interrupted);
  return 0;
}
