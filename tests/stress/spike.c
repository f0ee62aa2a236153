/* What a spike of large blocks leaves behind in a program of one thread that then does nothing: no call follows in which memory could be
 * given back. In three orders: as allocated, by chance, the second half first.
 *
 * usage: spike <most MB that may stay> */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SPIKE_MB = 200, BLOCKS_MOST = SPIKE_MB * 1000 / 70 };
enum order { AS_ALLOCATED, BY_CHANCE, SECOND_HALF_FIRST, ORDERS };

static char *blocks[BLOCKS_MOST];
static struct kit_rng rng;

static void swap(size_t a, size_t b) {
  char *block = blocks[a];
  blocks[a] = blocks[b];
  blocks[b] = block;
}

static void put_in_order(size_t count, enum order order) {
  if (order == BY_CHANCE)
    for (size_t i = count - 1; i > 0; i--) swap(i, kit_below(&rng, i + 1));
  if (order == SECOND_HALF_FIRST)
    for (size_t i = 0; i < count / 2; i++) swap(i, count - count / 2 + i);
}

static size_t left_behind(size_t size, enum order order) {
  size_t before = kit_resident(), count = SPIKE_MB * KIT_MB / size;
  CHECK(count <= BLOCKS_MOST, "%zu blocks", count);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = mem_malloc(size);
    CHECK(blocks[i], "block %zu of %zu bytes", i, size);
    memset(blocks[i], 1, size);
  }
  CHECK(kit_resident() >= before + SPIKE_MB * KIT_MB / 2, "the blocks are not in memory");
  put_in_order(count, order);
  for (size_t i = 0; i < count; i++) mem_free(blocks[i]);
  size_t after = kit_resident();
  return after > before ? after - before : 0;
}

/* In a child: a program that repeats its spikes may keep more of the next one. */
static void in_child(size_t size, enum order order, size_t most) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    size_t left = left_behind(size, order);
    printf("%zu bytes, order %d: %zu KB stay\n", size, order, left / KIT_KB);
    CHECK(left <= most, "%zu KB stay of blocks of %zu bytes", left / KIT_KB, size);
    fflush(stdout);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", (unsigned)status);
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {100000,  300000,  500000,  700000, 900000,
                                 1000000, 1048576, 1100000, 3000000};
  kit_start();
  CHECK(argc == 2, "one argument");
  rng = kit_rng_make(0);
  size_t most = strtoull(argv[1], NULL, 10) * KIT_MB;
  for (enum order order = 0; order < ORDERS; order++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) in_child(sizes[i], order, most);
  return 0;
}
