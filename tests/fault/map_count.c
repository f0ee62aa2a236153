/* The kernel's limit on the number of mappings (vm.max_map_count) is reached: mmap is refused, and
 * munmap and madvise where they would split a mapping. Allocation may fail with ENOMEM, freeing may
 * not; when the mappings are gone, all is as before. */
#include "kit.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS 400
#define MAX_MAPPINGS 300000

static kit_block blocks[BLOCKS];
static void *mappings[MAX_MAPPINGS];

/* Maps single pages until the kernel refuses; neighbours differ, so that it cannot join them. */
static size_t use_up(size_t page) {
  size_t count = 0;
  while (count < MAX_MAPPINGS) {
    void *memory =
        mmap(NULL, page, count % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return count;
    mappings[count++] = memory;
  }
  return 0;
}

static size_t work(struct kit_rng *rng, size_t rounds) {
  size_t refused = 0;
  for (size_t i = 0; i < rounds; ++i) {
    kit_block *block = &blocks[kit_below(rng, BLOCKS)];
    uint64_t draw = kit_random(rng);
    size_t size = kit_tier_size(rng, (enum kit_tier)(draw % KIT_TIERS));
    if (!*block) {
      errno = 0;
      *block = kit_block_any(rng, size);
      CHECK(*block || errno == ENOMEM, "NULL with errno %d", errno);
      refused += !*block;
    } else if (draw & 64) {
      kit_block resized = kit_block_resize(*block, size, draw);
      CHECK(resized || size > kit_block_size(*block), "a shrink was refused");
      refused += !resized;
      if (resized) *block = resized;
    } else {
      kit_block_free(*block);
      *block = 0;
    }
    if (i % 100 == 0) kit_purge();
  }
  return refused;
}

int main(void) {
  kit_start();
  struct kit_rng rng = kit_rng_make(1);
  work(&rng, 1000);
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t count = use_up(page);
  if (count == 0) {
    printf("skipped: the kernel allows more than %d mappings\n", MAX_MAPPINGS);
    return KIT_SKIP;
  }
  size_t refused = 0;
  for (size_t left = 0; left <= 16; left += 4) {
    refused += work(&rng, 500);
    for (size_t i = 0; i < 4; ++i) munmap(mappings[--count], page);
  }
  size_t most = count;
  while (count > 0) munmap(mappings[--count], page);
  CHECK(work(&rng, 1000) == 0, "malloc fails though there is room again");
  for (size_t i = 0; i < BLOCKS; ++i) kit_block_free(blocks[i]);
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("%zu mappings: %zu times ENOMEM; left %lu superslabs, %lu huge, %lu KB mapped\n", most,
         refused, (unsigned long)stats.superslabs_live, (unsigned long)stats.huge_live,
         (unsigned long)(stats.bytes_mapped / KIT_KB));
  CHECK(stats.huge_live == 0 && stats.superslabs_live <= 4, "memory is left");
  CHECK(stats.bytes_mapped <= 16 * KIT_MB,
        "mappings that could not be removed then are still there");
  return 0;
}
