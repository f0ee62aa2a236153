/* A hundred thousand Huge blocks, freed by chance: where a unit between two others would make one more mapping it stays mapped, but no
 * longer than the others, though nobody calls for it. And what is known of the blocks goes with them.
 *
 * usage: huge_freed */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The guard pages around what is known of memory are mappings: two for each 4 GiB of addresses, and for each 512 KiB of descriptors. In the
 * hardened variant the blocks take 400 GiB. */
enum { BLOCKS = 100000, SIZE = 1200000, MORE_MOST = 400 };

/* The address map: 20 KiB for each 4 GiB of addresses; 32 KiB in the hardened variant, whose blocks take twice as many. */
#define RESIDENT_MOST (6 * KIT_MB)

static char *blocks[BLOCKS];

static size_t mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps, "/proc/self/maps");
  size_t count = 0;
  for (int character; (character = getc_unlocked(maps)) != EOF;) count += character == '\n';
  fclose(maps);
  return count;
}

static size_t resident(void) {
  FILE *statm = fopen("/proc/self/statm", "r");
  size_t all, pages = 0;
  CHECK(statm && fscanf(statm, "%zu %zu", &all, &pages) == 2, "/proc/self/statm");
  fclose(statm);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

int main(void) {
  kit_start();
  struct kit_rng rng = kit_rng_make(0);
  mem_free(mem_malloc(100));
  memset(blocks, 1, sizeof blocks);
  size_t before = mappings(), resident_before = resident(), most = 0;
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
  size_t after = mappings(), more = resident() - resident_before;
  printf("%zu mappings before, %zu half way, %zu after\n", before, most, after);
  CHECK(most > 10000, "half of the blocks lie in %zu mappings: nothing to see", most);
  CHECK(after <= before + MORE_MOST, "%zu mappings stay", after);
  printf("%zu KB more are resident\n", more / KIT_KB);
  if (!KIT_SANITIZED) CHECK(more <= RESIDENT_MOST, "%zu KB stay", more / KIT_KB);
  return 0;
}
