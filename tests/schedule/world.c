/* world.c - see world.h. */
#include "world.h"

#include <string.h>

#include "heap/named.h"
#include "observe/report.h"
#include "policy/options.h"
#include "slab/link.h"
#include "superslab/lock_parts.h"
#include "superslab/unit_os.h"

#define WEAK __attribute__((weak))

_Alignas(UNIT_BYTES) char world_units[WORLD_UNITS][UNIT_BYTES];
struct superslab world_superslab;

void world_enter_unit(unsigned size_class) {
  static bool entered;
  if (!entered) {
    world_superslab.base = world_units[0];
    for (unsigned i = 0; i < SLICES_PER_UNIT; i++) world_superslab.slabs[i].index = (uint8_t)i;
    entered = map_set(world_units[0], 1, &world_superslab);
  }
  for (unsigned i = 0; i < SLICES_PER_UNIT; i++)
    world_superslab.slabs[i].size_class = (uint8_t)size_class;
}

/* --- rooms below ------------------------------------------------------------------------------------ */

/* One memory node. */
_Atomic uint32_t node_seen;
unsigned node_now(void) { return 0; }
unsigned node_count(void) { return 1; }

static _Alignas(4096) char metadata[256 * 1024];
static size_t metadata_used, metadata_most;

void world_reset_metadata(void) {
  if (metadata_used > metadata_most) metadata_most = metadata_used;
  memset(metadata, 0, metadata_most);
  metadata_used = 0;
}

WEAK void *meta_allocate(size_t bytes, size_t alignment) {
  size_t at = (metadata_used + alignment - 1) & ~(alignment - 1);
  if (at + bytes > sizeof metadata) return NULL;
  metadata_used = at + bytes;
  return metadata + at;
}

WEAK void *os_map_guarded(size_t bytes) {
  static _Alignas(4096) struct map_leaf leaf;
  static bool given;
  if (given || bytes != sizeof leaf) return NULL;
  given = true;
  return &leaf;
}

WEAK bool os_unmap_guarded(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return true;
}

WEAK _Thread_local bool os_dying;
WEAK _Atomic(void (*)(void)) os_when_dying;

WEAK void os_yield(void) { schedule_yield(); }

WEAK bool os_thread_exists(int thread) {
  (void)thread;
  return false;
}
WEAK void os_sleep_on(_Atomic uint32_t *word, uint32_t value, uint32_t ms) {
  (void)word, (void)value, (void)ms;
  schedule_yield();
}

WEAK uint64_t os_clock_ms(void) { return 1; }

/* Nothing is locked. */
WEAK atomic_bool os_locks_parts;
WEAK bool os_lock_part_now(void *address, size_t bytes) { return address != NULL && bytes > 0; }
WEAK void os_unlock_part_now(void *address, size_t bytes) { (void)address, (void)bytes; }
WEAK void *span_locked(struct slab *span) { return span != NULL ? slab_base(span) : NULL; }
WEAK struct superslab *huge_locked(struct superslab *superslab) { return superslab; }
WEAK bool huge_lock_resized(const struct superslab *superslab, size_t bytes) {
  return superslab != NULL && bytes > 0;
}
WEAK bool huge_lock_moved(const struct superslab *from, size_t units, const struct superslab *to) {
  return from != to && units > 0;
}

WEAK size_t os_page_size(void) { return 4096; }

WEAK bool os_has_one_thread_for_sure(void) { return false; }

WEAK size_t unit_mapped_bytes(void) { return 0; }

WEAK size_t superslab_bytes_in_use(void) { return 0; }

WEAK int32_t option_values[OPTION_COUNT];

void report_bad_pointer(const char *function, const void *pointer, const char *what) {
  schedule_fail("%s of %p: %s", function, pointer, what);
}

void link_report(const void *block) { report_bad_pointer("malloc", block, "damaged list"); }

void report_corruption(const char *what) { schedule_fail("corruption: %s", what); }

/* No scenario has a heap of the program's own. */
WEAK bool named_put(struct hak_heap *named, unsigned size_class, void *block) {
  (void)named, (void)size_class, (void)block;
  schedule_fail("a block of no thread's heap");
  return false;
}

WEAK void named_lose(struct arena *heap) {
  (void)heap;
  schedule_fail("a heap that is no thread's");
}

WEAK void named_end_walk_of_others(struct arena *heap) { named_lose(heap); }
