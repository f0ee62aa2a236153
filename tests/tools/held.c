/* held.c - a program that comes to rest with memory of a known kind, for tests that look at it from outside.
 *
 * Usage: held fresh|small|huge|given|threads|fork|churn|storm|private|exec|orphan|leave
 * Prints "ready PID LIVE" when it rests (one line for each process): LIVE bytes were asked for and are held, all of them
 * written. Ends when its standard input does, or has a line. given: as small, and a thread has Large blocks in its cache whose pages went
 * back. private: no other process of its user may look at it. exec: becomes sleep.
 * orphan: its first thread ends, another one goes on. leave: the same after a line, and another "ready".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, THREADS = 40, CHURNERS = 3, STORMERS = 8, SLOTS = 2000 };

static uint64_t state = 42;

static unsigned draw(uint64_t *seed, unsigned below) {
  *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (unsigned)(*seed >> 33) % below;
}

static void *filled(size_t bytes) {
  char *block = malloc(bytes);
  if (block == NULL) abort();
  memset(block, 1, bytes);
  return block;
}

static void ready(size_t live) {
  char line[64];
  int length = snprintf(line, sizeof line, "ready %d %zu\n", (int)getpid(), live);
  if (write(1, line, (size_t)length) != length) _exit(1);
}

static void rest(void) {
  char byte;
  ssize_t got;
  do got = read(0, &byte, 1);
  while ((got > 0 && byte != '\n') || (got < 0 && errno == EINTR));
}

/* `bytes` in blocks of `least` to `most` bytes, of which one in `keep` stays. */
static size_t scatter(uint64_t *seed, size_t bytes, unsigned least, unsigned most, unsigned keep) {
  size_t room = bytes / least + 1, count = 0, live = 0;
  struct {
    void *block;
    size_t size;
  } *all = malloc(room * sizeof *all);
  if (all == NULL) abort();
  for (size_t made = 0; made < bytes; made += all[count++].size) {
    all[count].size = least + draw(seed, most - least + 1);
    all[count].block = filled(all[count].size);
  }
  for (size_t i = 0; i < count; i++) {
    if (draw(seed, keep) != 0) free(all[i].block);
    else live += all[i].size;
  }
  free(all);
  return live;
}

static size_t huge(void) {
  static const size_t sizes[] = {3 * MIB, 17 * MIB + 12345, 64 * MIB, 300000, 900000, 33 * MIB};
  size_t live = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    filled(sizes[i]);
    live += sizes[i];
  }
  free(filled(20 * MIB));
  free(filled(500000));
  return live;
}

static void *cache_large(void *barrier) {
  enum { BLOCKS = 8 };
  void *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = filled(MIB / 2);
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  pthread_barrier_wait(barrier);
  pause();
  return NULL;
}

static size_t given(void) {
  static pthread_barrier_t cached;
  pthread_t thread;
  size_t live = scatter(&state, 4 * MIB, 16, 1024, 4);
  pthread_barrier_init(&cached, NULL, 2);
  if (pthread_create(&thread, NULL, cache_large, &cached) != 0) abort();
  pthread_barrier_wait(&cached);
  malloc_trim(0);
  return live;
}

static _Atomic size_t threads_live;
static pthread_barrier_t all_done;

static void *hold(void *argument) {
  uint64_t seed = (uintptr_t)argument;
  atomic_fetch_add(&threads_live, scatter(&seed, 2 * MIB, 16, 4096, 4));
  pthread_barrier_wait(&all_done);
  pause();
  return NULL;
}

static size_t threads(void) {
  pthread_barrier_init(&all_done, NULL, THREADS + 1);
  for (uintptr_t i = 0; i < THREADS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, hold, (void *)(i + 1)) != 0) abort();
    pthread_detach(thread);
  }
  pthread_barrier_wait(&all_done);
  return threads_live;
}

static _Atomic(void *) slots[SLOTS];

/* Blocks of all sizes, most of them freed by another thread than the one that took them. */
static void *churn(void *argument) {
  uint64_t seed = (uintptr_t)argument;
  for (;;) {
    unsigned size = 16u << draw(&seed, draw(&seed, 100) == 0 ? 18 : 8);
    char *block = malloc(size);
    if (block != NULL) block[0] = block[size - 1] = 1;
    free(atomic_exchange(&slots[draw(&seed, SLOTS)], block));
  }
  return NULL;
}

/* The same in threads that end, and with blocks of up to 4 MiB. */
static void *storm(void *argument) {
  uint64_t seed = (uintptr_t)argument;
  for (int i = 0; i < 3000; i++) {
    unsigned size = 16u + draw(&seed, 16u << draw(&seed, draw(&seed, 50) == 0 ? 18 : 10));
    char *block = draw(&seed, 20) == 0 ? calloc(1, size) : malloc(size);
    if (block != NULL && draw(&seed, 20) == 0) {
      char *moved = realloc(block, size * 2);
      block = moved != NULL ? moved : block;
    }
    if (block != NULL) block[0] = block[size - 1] = 1;
    free(atomic_exchange(&slots[draw(&seed, SLOTS)], block));
  }
  pthread_t next;
  if (pthread_create(&next, NULL, storm, (void *)(uintptr_t)seed) == 0) pthread_detach(next);
  return NULL;
}

static void *go_on(void *argument) {
  pthread_join(*(pthread_t *)argument, NULL);
  ready(scatter(&state, (size_t)20 * MIB, 16, 1024, 2));
  rest();
  _exit(0);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "fresh";
  size_t live = 0;
  pid_t child = 0;
  if (strcmp(what, "small") == 0 || strcmp(what, "fork") == 0)
    live = scatter(&state, (size_t)200 * MIB, 16, 1024, 10);
  if (strcmp(what, "huge") == 0) live = huge();
  if (strcmp(what, "given") == 0) live = given();
  if (strcmp(what, "threads") == 0) live = threads();
  for (uintptr_t i = 0; strcmp(what, "churn") == 0 && i < CHURNERS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, churn, (void *)(i + 1)) != 0) abort();
  }
  for (uintptr_t i = 0; strcmp(what, "storm") == 0 && i < STORMERS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, storm, (void *)(i + 1)) != 0) abort();
    pthread_detach(thread);
  }
  if (strcmp(what, "orphan") == 0 || strcmp(what, "leave") == 0) {
    static pthread_t first;
    pthread_t other;
    first = pthread_self();
    if (pthread_create(&other, NULL, go_on, &first) != 0) abort();
    if (strcmp(what, "leave") == 0) {
      ready(0);
      rest();
    }
    pthread_exit(NULL);
  }
  if (strcmp(what, "private") == 0) {
    live = scatter(&state, (size_t)20 * MIB, 16, 1024, 2);
    usleep(300000); /* its page is due again, and written at the next slow path */
    scatter(&state, MIB, 16, 1024, 1000);
    if (prctl(PR_SET_DUMPABLE, 0) != 0) abort();
  }
  if (strcmp(what, "fork") == 0) {
    child = fork();
    if (child == 0) live += scatter(&state, (size_t)20 * MIB, 16, 1024, 2);
  }
  ready(live);
  rest();
  if (strcmp(what, "exec") == 0) execl("/bin/sleep", "sleep", "1000", (char *)NULL);
  if (child > 0) waitpid(child, NULL, 0);
  _exit(0);
}
