/* A hundred thousand Huge blocks, freed by chance: where a unit between two others would make one more mapping it stays mapped, but no
 * longer than the others, though nobody calls for it.
 *
 * usage: huge_freed */
#include "kit.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS = 100000, SIZE = 1200000, MORE_MOST = 200 };

static char *blocks[BLOCKS];

static size_t mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps, "/proc/self/maps");
  size_t count = 0;
  for (int character; (character = getc_unlocked(maps)) != EOF;) count += character == '\n';
  fclose(maps);
  return count;
}

int main(void) {
  kit_start();
  struct kit_rng rng = kit_rng_make(0);
  mem_free(mem_malloc(100));
  size_t before = mappings(), most = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_malloc(SIZE);
    CHECK(blocks[i], "block %zu", i);
  }
  for (size_t left = BLOCKS; left > 0; left--) {
    size_t at = kit_below(&rng, left);
    mem_free(blocks[at]);
    blocks[at] = blocks[left - 1];
    if (left == BLOCKS / 2) most = mappings();
  }
  size_t after = mappings();
  printf("%zu mappings before, %zu half way, %zu after\n", before, most, after);
  CHECK(most > 10000, "half of the blocks lie in %zu mappings: nothing to see", most);
  CHECK(after <= before + MORE_MOST, "%zu mappings stay", after);
  return 0;
}
