/* map.c - the address map: flat tables from slice to bin and from unit to descriptor.
 *
 * The tables are reserved read-only and made writable piece by piece where units lie. Reserved so, they
 * cost 16.5 GiB of address space and no memory: they are not charged under strict overcommit, and
 * mlockall() fills them with the shared (huge) zero page. Where the address space is limited (ulimit -v) or
 * the reservation is refused, small tables cover the lowest addresses only, and units are placed there by
 * hint.
 */
#include "superslab/superslab.h"

/* Under a limit of the address space the tables may take at most one part in so many of it. */
#define TABLES_SHARE 16
#define SMALL_TABLES_SHARE 64

/* How much the small tables cover: 256 GiB, in 33 MiB; less under a low limit, for whose sake they are
 * there. */
#define SMALL_SLICES_MOST ((uintptr_t)1 << (38 - SLICE_SHIFT))
#define SMALL_SLICES_LEAST ((uintptr_t)1 << (33 - SLICE_SHIFT))

/* A piece of the tables that is made writable at once: larger than any page size, small enough not to
 * matter under strict overcommit. Of map_bins it stands for 512 MiB. */
#define WINDOW_BYTES (64 * KIB)

#define BIN_BYTES(slices) ((slices) * sizeof(struct bin *))
#define TABLE_BYTES(slices)                                                                        \
  (BIN_BYTES(slices) + (slices) / SLICES_PER_UNIT * sizeof(struct superslab *))
#define WINDOWS ((TABLE_BYTES(MAP_FULL_SLICES) + WINDOW_BYTES - 1) / WINDOW_BYTES)

_Atomic(struct bin *) *map_bins;
_Atomic(struct superslab *) *map_superslabs;
uintptr_t map_slices;

static _Atomic uint8_t window_writable[WINDOWS];
static _Atomic uintptr_t next_hint;

static bool reserve(uintptr_t slices) {
  char *tables = os_map(TABLE_BYTES(slices), OS_READ);
  if (tables == NULL) return false;
  /* Huge zero pages where a foreign pointer is looked up or mlockall() fills the tables: 8 ms for that
   * instead of 1.8 s. What is written to lies in windows, too small for huge pages. */
  if (slices == MAP_FULL_SLICES) os_advise_huge(tables, TABLE_BYTES(slices));
  map_bins = (_Atomic(struct bin *) *)(void *)tables;
  map_superslabs = (_Atomic(struct superslab *) *)(void *)(tables + BIN_BYTES(slices));
  map_slices = slices;
  return true;
}

static uintptr_t small_slices(size_t limit) {
  uintptr_t slices = SMALL_SLICES_MOST;
  while (slices > SMALL_SLICES_LEAST && TABLE_BYTES(slices) > limit / SMALL_TABLES_SHARE)
    slices /= 2;
  return slices;
}

bool map_init(void) {
  if (map_slices != 0) return true;
  size_t limit = os_address_space_limit();
  if (limit / TABLES_SHARE >= TABLE_BYTES(MAP_FULL_SLICES) && reserve(MAP_FULL_SLICES)) return true;
  uintptr_t slices = small_slices(limit);
  if (!reserve(slices)) return false;
  atomic_store_explicit(&next_hint, (slices << SLICE_SHIFT) / 4, memory_order_relaxed);
  return true;
}

bool map_covers(const char *base, size_t units) {
  uintptr_t first = (uintptr_t)base >> UNIT_SHIFT, limit = map_slices / SLICES_PER_UNIT;
  return first < limit && units <= limit - first;
}

char *map_next_hint(size_t units, size_t alignment) {
  if (atomic_load_explicit(&next_hint, memory_order_relaxed) == 0) return NULL;
  size_t bytes = (units << UNIT_SHIFT) + alignment;
  uintptr_t hint = atomic_fetch_add_explicit(&next_hint, bytes, memory_order_relaxed);
  uintptr_t top = map_slices << SLICE_SHIFT;
  if (hint + bytes > top) { /* start again: what was freed since may be reused */
    hint = 2 * GIB;
    atomic_store_explicit(&next_hint, hint + bytes, memory_order_relaxed);
  }
  return (char *)((hint + alignment - 1) & ~(alignment - 1));
}

/* Makes the windows writable that the entries [from, to) lie in. Two threads may both do the same one: it
 * is the same call twice. */
static bool make_writable(const volatile void *from, const volatile void *to) {
  char *tables = (char *)map_bins;
  size_t first = (size_t)((const char *)from - tables) / WINDOW_BYTES;
  size_t last = (size_t)((const char *)to - tables - 1) / WINDOW_BYTES;
  for (size_t window = first; window <= last; window++) {
    /* acquire/release: who sees the mark may write */
    if (atomic_load_explicit(&window_writable[window], memory_order_acquire)) continue;
    if (!os_make_writable(tables + window * WINDOW_BYTES, WINDOW_BYTES)) return false;
    atomic_store_explicit(&window_writable[window], 1, memory_order_release);
  }
  return true;
}

bool map_set(const char *base, size_t units, struct superslab *superslab) {
  uintptr_t first = (uintptr_t)base >> UNIT_SHIFT, end = first + units;
  if (!make_writable(&map_superslabs[first], &map_superslabs[end])) return false;
  /* A huge block has no bins. */
  if (superslab->huge_units == 0 &&
      !make_writable(&map_bins[first * SLICES_PER_UNIT], &map_bins[end * SLICES_PER_UNIT]))
    return false;
  /* release: who finds the entry finds the descriptor filled in */
  for (uintptr_t unit = first; unit < end; unit++)
    atomic_store_explicit(&map_superslabs[unit], superslab, memory_order_release);
  return true;
}

void map_set_bin(const char *base, size_t slices, struct bin *bin) {
  uintptr_t first = (uintptr_t)base >> SLICE_SHIFT;
  for (uintptr_t slice = first; slice < first + slices; slice++)
    atomic_store_explicit(&map_bins[slice], bin, memory_order_relaxed);
}

void map_clear(const char *base, size_t units) {
  uintptr_t first = (uintptr_t)base >> UNIT_SHIFT;
  for (uintptr_t unit = first; unit < first + units; unit++)
    atomic_store_explicit(&map_superslabs[unit], NULL, memory_order_release);
}

bool map_claim(const char *base, struct superslab *superslab) {
  struct superslab *expected = superslab;
  /* acquire: what was done to the block before it was freed is seen by the one that frees it; release:
   * who enters the unit next comes after. */
  return atomic_compare_exchange_strong_explicit(&map_superslabs[(uintptr_t)base >> UNIT_SHIFT],
                                                 &expected, NULL, memory_order_acq_rel,
                                                 memory_order_relaxed);
}
