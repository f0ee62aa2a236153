/* map.c - the address map: one flat table from unit number to descriptor.
 *
 * The table is reserved read-only and made writable piece by piece where units lie. Reserved so, it
 * costs 512 MiB of address space and no memory: it is not charged under strict overcommit, and
 * mlockall() fills it with the shared zero page. Where the address space is limited (ulimit -v below
 * 8 GiB) or the reservation is refused, a small table covers the lowest 256 GiB only, and units are placed
 * there by hint.
 */
#include "superslab/superslab.h"

#define SMALL_UNITS ((uintptr_t)1 << (38 - UNIT_SHIFT)) /* 256 GiB: a table of 1 MiB */

/* Under a limit of the address space the full table may take at most this part of it. */
#define FULL_TABLE_SHARE 16

/* A piece of the table made writable at once: 64 KiB, the units of 16 GiB. Larger than any page
 * size, small enough not to matter under strict overcommit. */
#define WINDOW_BYTES (64 * KIB)
#define WINDOW_UNITS (WINDOW_BYTES / sizeof(intptr_t))
#define WINDOWS (MAP_FULL_UNITS / WINDOW_UNITS)

_Atomic intptr_t *map_entries;
uintptr_t map_limit;

static _Atomic uint8_t window_writable[WINDOWS];
static _Atomic uintptr_t next_hint;

bool map_init(void) {
  if (map_limit != 0) return true;
  uintptr_t units = MAP_FULL_UNITS;
  char *zeros = NULL;
  if (os_address_space_limit() / FULL_TABLE_SHARE >= units * sizeof(intptr_t))
    zeros = os_map(MAP_DUMMY_BYTES + units * sizeof(intptr_t), OS_READ);
  if (zeros == NULL) {
    units = SMALL_UNITS;
    zeros = os_map(MAP_DUMMY_BYTES + units * sizeof(intptr_t), OS_READ);
    if (zeros == NULL) return false;
    atomic_store_explicit(&next_hint, 64 * GIB, memory_order_relaxed);
  }
  map_entries = (_Atomic intptr_t *)(void *)(zeros + MAP_DUMMY_BYTES);
  map_limit = units;
  return true;
}

bool map_covers(const char *base, size_t units) {
  uintptr_t first = (uintptr_t)base >> UNIT_SHIFT;
  return first < map_limit && units <= map_limit - first;
}

char *map_next_hint(size_t units, size_t alignment) {
  if (atomic_load_explicit(&next_hint, memory_order_relaxed) == 0) return NULL;
  size_t bytes = (units << UNIT_SHIFT) + alignment;
  uintptr_t hint = atomic_fetch_add_explicit(&next_hint, bytes, memory_order_relaxed);
  uintptr_t top = SMALL_UNITS << UNIT_SHIFT;
  if (hint + bytes > top) { /* start again: what was freed since may be reused */
    hint = 2 * GIB;
    atomic_store_explicit(&next_hint, hint + bytes, memory_order_relaxed);
  }
  return (char *)((hint + alignment - 1) & ~(alignment - 1));
}

/* Two threads may both make the same window writable: it is the same call twice. */
static bool make_window_writable(uintptr_t window) {
  /* acquire/release: who sees the mark may write */
  if (atomic_load_explicit(&window_writable[window], memory_order_acquire)) return true;
  if (!os_make_writable(&map_entries[window * WINDOW_UNITS], WINDOW_BYTES)) return false;
  atomic_store_explicit(&window_writable[window], 1, memory_order_release);
  return true;
}

static intptr_t distance_of(const struct superslab *superslab) {
  return (const char *)superslab - (const char *)map_entries + (intptr_t)MAP_DUMMY_BYTES;
}

bool map_set(const char *base, size_t units, struct superslab *superslab) {
  uintptr_t first = (uintptr_t)base >> UNIT_SHIFT, last = first + units - 1;
  for (uintptr_t window = first / WINDOW_UNITS; window <= last / WINDOW_UNITS; window++)
    if (!make_window_writable(window)) return false;
  /* release: who finds the entry finds the descriptor filled in */
  for (uintptr_t unit = first; unit <= last; unit++)
    atomic_store_explicit(&map_entries[unit], distance_of(superslab), memory_order_release);
  return true;
}

void map_clear(const char *base, size_t units) {
  uintptr_t first = (uintptr_t)base >> UNIT_SHIFT;
  for (uintptr_t unit = first; unit < first + units; unit++)
    atomic_store_explicit(&map_entries[unit], 0, memory_order_release);
}

bool map_claim(const char *base, struct superslab *superslab) {
  intptr_t expected = distance_of(superslab);
  /* acquire: what was done to the block before it was freed is seen by the one that frees it; release:
   * who enters the unit next comes after. */
  return atomic_compare_exchange_strong_explicit(&map_entries[(uintptr_t)base >> UNIT_SHIFT],
                                                 &expected, 0, memory_order_acq_rel,
                                                 memory_order_relaxed);
}
