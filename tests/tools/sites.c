/* sites.c - a program that holds what three functions of it have allocated, for tests of profiles.
 *
 * Usage: sites [MILLISECONDS]
 * Prints "ready PID LIVE" once it has 64 MB of held_in_small() and 16 MB of held_in_large() blocks, 3/4 and 1/4 of them, and has
 * allocated and freed 200 MB in passing(). Then each MILLISECONDS leaks 16 KB in leaked(), and in rolling() replaces one of 256 blocks of 64 KB, the
 * oldest one. Ends when its standard input does.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

enum {
  SMALL = 1000,
  SMALL_COUNT = 64000,
  LARGE = 200000,
  LARGE_COUNT = 80,
  PASSING = 200000,
  LEAKED = 16000,
  ROLLING = 64000,
  ROLLING_COUNT = 256
};

static void *small[SMALL_COUNT], *large[LARGE_COUNT], *cache[ROLLING_COUNT], *last;
static volatile int sink;

static NOINLINE void *filled(size_t bytes) {
  void *block = malloc(bytes);
  if (block == NULL) abort();
  memset(block, 1, bytes);
  sink++; /* no tail call: it has a frame of its own */
  return block;
}

static NOINLINE void *held_in_small(void) {
  void *block = filled(SMALL);
  sink++;
  return block;
}

static NOINLINE void *held_in_large(void) {
  void *block = filled(LARGE);
  sink++;
  return block;
}

static NOINLINE void passing(void) {
  free(filled(SMALL));
  sink++;
}

static NOINLINE void leaked(void) {
  last = filled(LEAKED);
  sink++;
}

static NOINLINE void rolling(unsigned turn) {
  free(cache[turn % ROLLING_COUNT]);
  cache[turn % ROLLING_COUNT] = filled(ROLLING);
  sink++;
}

int main(int argc, char **argv) {
  unsigned turn = 0;
  int pause = argc > 1 ? atoi(argv[1]) : -1;
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (int i = 0; i < SMALL_COUNT; i++) small[i] = held_in_small();
  for (int i = 0; i < LARGE_COUNT; i++) large[i] = held_in_large();
  for (int i = 0; i < PASSING; i++) passing();
  /* Full from the start: what rolls does not grow, however slow the machine is. */
  while (pause >= 0 && turn < ROLLING_COUNT) rolling(turn++);
  printf("ready %d %d\n", (int)getpid(), SMALL * SMALL_COUNT + LARGE * LARGE_COUNT);
  fflush(stdout);
  while (poll(&input, 1, pause) == 0) {
    leaked();
    rolling(turn++);
  }
  return small[0] == large[0];
}
