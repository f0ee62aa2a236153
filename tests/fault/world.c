#include "world.h"

#include "os/fault.h"

#include <string.h>

#define SENTINEL 4711 /* an errno that no call sets */

struct world *world_make(uint64_t stream) {
  static struct world world;
  world.rng = kit_rng_make(stream);
  return &world;
}

/* What a call is about to be judged by. */
struct before {
  uint64_t injected;
};

static struct before begin(void) {
  struct before before = {os_fault_injected()};
  errno = SENTINEL;
  return before;
}

/* After every call: when a system call was refused in it, no live block may have changed. */
static void look_around(struct world *world) {
  uint64_t injected = os_fault_injected();
  if (injected != world->damaged_since) {
    world_check(world);
    world->damaged_since = injected;
  }
}

static void said_no(struct world *world, struct before before, int error, const char *what,
                    size_t size) {
  CHECK(error == ENOMEM, "%s(%zu) gave NULL with error %d", what, size, error);
  CHECK(os_fault_injected() > before.injected,
        "%s(%zu) gave NULL though no system call was refused in it", what, size);
  ++world->refused;
  look_around(world);
}

static bool keep(struct world *world, struct before before, void *memory, size_t size,
                 size_t alignment, const char *what) {
  if (!memory) {
    said_no(world, before, errno, what, size);
    return false;
  }
  size_t multiple = alignment ? alignment : 16;
  CHECK(((uintptr_t)memory & (multiple - 1)) == 0, "%s(%zu) gave %p, not aligned to %zu", what,
        size, memory, multiple);
  CHECK(hak_usable_size(memory) >= size, "%s(%zu) gave a block of %zu bytes", what, size,
        hak_usable_size(memory));
  CHECK(world->count < WORLD_BLOCKS, "the scenario has too many blocks");
  uint64_t tag = kit_random(&world->rng);
  kit_fill(memory, size, tag);
  world->live[world->count++] = (struct world_block){memory, size, alignment, tag};
  look_around(world);
  return true;
}

bool world_malloc(struct world *world, size_t size) {
  struct before before = begin();
  return keep(world, before, hak_malloc(size), size, 0, "malloc");
}

bool world_calloc(struct world *world, size_t count, size_t size) {
  struct before before = begin();
  void *memory = hak_calloc(count, size);
  if (memory) kit_verify_zero(memory, count * size);
  return keep(world, before, memory, count * size, 0, "calloc");
}

bool world_aligned(struct world *world, size_t alignment, size_t size) {
  struct before before = begin();
  return keep(world, before, hak_aligned_alloc(alignment, size), size, alignment, "aligned_alloc");
}

bool world_posix_memalign(struct world *world, size_t alignment, size_t size) {
  struct before before = begin();
  void *memory = &before;
  int error = hak_posix_memalign(&memory, alignment, size);
  CHECK(errno == (error == ENOMEM ? ENOMEM : SENTINEL), "posix_memalign left errno %d", errno);
  if (error) {
    CHECK(memory == &before, "posix_memalign failed and wrote its result");
    said_no(world, before, error, "posix_memalign", size);
    return false;
  }
  return keep(world, before, memory, size, alignment, "posix_memalign");
}

static bool moved(struct world *world, struct before before, size_t index, void *memory,
                  size_t size, const char *what) {
  struct world_block *block = &world->live[index];
  if (!memory) {
    CHECK(size > block->size, "%s refused to shrink from %zu to %zu", what, block->size, size);
    said_no(world, before, errno, what, size);
    return false;
  }
  CHECK(((uintptr_t)memory & 15) == 0, "%s(%zu) gave %p", what, size, memory);
  CHECK(hak_usable_size(memory) >= size, "%s(%zu) gave a block of %zu bytes", what, size,
        hak_usable_size(memory));
  kit_verify(memory, block->size, size, block->tag);
  *block = (struct world_block){memory, size, 0, kit_random(&world->rng)};
  kit_fill(memory, size, block->tag);
  look_around(world);
  return true;
}

bool world_realloc(struct world *world, size_t index, size_t size) {
  struct before before = begin();
  void *memory = hak_realloc(world->live[index].memory, size);
  return moved(world, before, index, memory, size, "realloc");
}

bool world_reallocarray(struct world *world, size_t index, size_t count, size_t size) {
  struct before before = begin();
  void *memory = hak_reallocarray(world->live[index].memory, count, size);
  return moved(world, before, index, memory, count * size, "reallocarray");
}

void world_free(struct world *world, size_t index) {
  struct world_block block = world->live[index];
  kit_verify(block.memory, block.size, block.size, block.tag);
  world->live[index] = world->live[--world->count];
  errno = SENTINEL;
  if (block.tag & 1) hak_free(block.memory);
  else if (block.alignment) hak_free_aligned_sized(block.memory, block.alignment, block.size);
  else hak_free_sized(block.memory, block.size);
  CHECK(errno == SENTINEL, "free of %zu bytes changed errno to %d", block.size, errno);
  look_around(world);
}

void world_free_some(struct world *world, size_t step) {
  /* From the end, so that the block moved into the gap has had its turn. */
  for (size_t index = world->count; index-- > 0;)
    if (index % step == 0) world_free(world, index);
}

void world_free_all(struct world *world) { world_free_some(world, 1); }

static void purge_now(struct world *world) {
  hak_purge();
  look_around(world);
}

void world_random_step(struct world *world, enum kit_tier largest) {
  struct kit_rng *rng = &world->rng;
  enum kit_tier tier = (enum kit_tier)kit_below(rng, (uint64_t)largest + 1);
  size_t size = kit_tier_size(rng, tier);
  size_t index = world->count ? kit_below(rng, world->count) : 0;
  size_t alignment = (size_t)16 << kit_below(rng, 18);
  uint64_t draw = kit_below(rng, 100);
  /* Around 150 blocks. */
  if (world->count > 100 + kit_below(rng, 100)) draw = 99;
  if (draw < 35) world_malloc(world, size);
  else if (draw < 43) world_calloc(world, 1 + size / 7, 7);
  else if (draw < 47) world_aligned(world, alignment, size);
  else if (draw < 51) world_posix_memalign(world, alignment, size);
  else if (world->count == 0) world_malloc(world, size);
  else if (draw < 65) world_realloc(world, index, size);
  else if (draw < 68) world_reallocarray(world, index, 1 + size / 24, 24);
  else if (draw < 69) purge_now(world);
  else world_free(world, index);
}

void world_check(struct world *world) {
  for (size_t i = 0; i < world->count; ++i) {
    const struct world_block *block = &world->live[i];
    CHECK(hak_owns(block->memory), "live block %p of %zu bytes is no longer known", block->memory,
          block->size);
    CHECK(hak_usable_size(block->memory) >= block->size, "live block %p of %zu bytes now has %zu",
          block->memory, block->size, hak_usable_size(block->memory));
    kit_verify(block->memory, block->size, block->size, block->tag);
  }
}

void world_recover(struct world *world) {
  world->damaged_since = os_fault_injected();
  world_check(world);
  static const size_t sizes[] = {1, 100, 1000, 3000, 30000, 70000, 900000, 1500000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    CHECK(world_malloc(world, sizes[i]), "malloc(%zu) after recovery", sizes[i]);
    CHECK(world_realloc(world, world->count - 1, 2 * sizes[i]), "realloc after recovery");
    CHECK(world_calloc(world, 3, sizes[i]), "calloc(3, %zu) after recovery", sizes[i]);
    CHECK(world_aligned(world, 256 * KIT_KB, sizes[i]), "aligned_alloc after recovery");
    CHECK(world_posix_memalign(world, 4 * KIT_MB, sizes[i]), "posix_memalign after recovery");
  }
  for (int i = 0; i < 200; ++i) world_random_step(world, i % 50 ? KIT_LARGE : KIT_HUGE);
  world_check(world);
  world_free_some(world, 2);
  world_check(world);
  world_free_all(world);
  hak_purge();
  struct hak_stats stats = kit_stats();
  CHECK(stats.huge_live == 0, "%lu huge blocks are left", (unsigned long)stats.huge_live);
  CHECK(stats.superslabs_live <= 2, "%lu superslabs are left",
        (unsigned long)stats.superslabs_live);
  CHECK(stats.heaps_active <= 1, "%lu heaps are active", (unsigned long)stats.heaps_active);
}
