/* planted.c - a program that frees most of its blocks and keeps one in 64, of one function, for tests of hakmem explain.
 *
 * Usage: planted few|full. Prints "ready PID KEPT" and ends when its standard input does.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

enum { SIZE = 64, COUNT = 512 * 1024, KEEP_ONE_IN = 64 };

static char *blocks[COUNT];
static volatile int sink;

static NOINLINE char *kept_for_long(void) {
  char *block = malloc(SIZE);
  sink++; /* no tail call: it has a frame of its own */
  return block;
}

static NOINLINE char *gone_soon(void) {
  char *block = malloc(SIZE);
  sink++;
  return block;
}

int main(int argc, char **argv) {
  int few = argc > 1 && strcmp(argv[1], "few") == 0, kept = 0;
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = i % KEEP_ONE_IN == 0 ? kept_for_long() : gone_soon();
    if (blocks[i] == NULL) abort();
    memset(blocks[i], 1, SIZE);
  }
  for (int i = 0; i < COUNT; i++) {
    if (few && i % KEEP_ONE_IN != 0) free(blocks[i]);
    else kept++;
  }
  malloc_trim(0);
  printf("ready %d %d\n", (int)getpid(), kept);
  fflush(stdout);
  return (int)read(0, blocks[0], 1);
}
