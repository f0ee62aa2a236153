/* random_place.c - see random_place.h.
 *
 * Places are asked for one by one, and nothing is reserved. A limit of the address space counts what is mapped alone, and where a place is
 * taken, or the kernel (or an emulator) has other ideas, the unit lies elsewhere.
 */
#include "superslab/random_place.h"

#if HAK_HARDENED

#include "policy/options.h"
#include "superslab/map.h"
#include "superslab/unit_os.h"

/* 32,768 units: 15 bits for the place of one beside another. Each unit may take a page of page tables and one of the address map for its
 * own, 4 KiB each and 16 KiB at most. A window has 16 leaves of the address map, 64 pages of units by unit, and 64 of the page tables'
 * second level, whatever is in it (docs/decisions/0024). */
#define WINDOW_BYTES ((uintptr_t)64 * GIB)
#define LEAF_BYTES ((uintptr_t)1 << LEAF_SHIFT)

/* Under a limit of the address space the window is one leaf: 16 of them take 8.6 MB of it. */
#define NARROW_BYTES LEAF_BYTES
enum { IS_NARROW = 1 }; /* in the address of the window, which is a multiple of a leaf */

/* A place may be taken: in a window that is half full, of 16 units one finds none in so many tries. */
enum { TRIES = 4 };

static _Atomic uintptr_t window;  /* 0: not drawn yet */
static _Atomic uint64_t sequence; /* of SplitMix64 (Steele, Lea and Flood 2014) */

static uint64_t mix(uint64_t bits) {
  bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
  return bits ^ bits >> 31;
}

/* relaxed: nothing hangs on the number but the place */
static uint64_t next(void) {
  uint64_t state =
      atomic_fetch_add_explicit(&sequence, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);
  return mix(state);
}

/* From an eighth of the program's address space to five eighths of it: above what programs without PIE and their heaps take, below PIE
 * programs (at two thirds on x86-64) and libraries and stacks (at the top). A stack's address tells how much there is: 2^47 bytes on
 * x86-64, so that there are 16,368 windows. */
static uintptr_t draw_window(void) {
  uint64_t numbers[2];
  uintptr_t stack = (uintptr_t)&numbers,
            eighth = (uintptr_t)1 << (63 - __builtin_clzll(stack)) >> 2;
  os_random(numbers);
  uintptr_t drawn = LEAF_BYTES,
            expected = 0; /* where there is hardly any: right above the first 4 GiB */
  if (eighth >= WINDOW_BYTES) {
    uintptr_t windows = (eighth * 4 - WINDOW_BYTES) / LEAF_BYTES;
    drawn = eighth + (uintptr_t)(mix(numbers[0]) % windows) * LEAF_BYTES;
  }
  if (os_memory_is_limited()) drawn |= IS_NARROW;
  atomic_fetch_add_explicit(&sequence, numbers[1], memory_order_relaxed);
  /* Of several threads that draw, one decides. */
  if (!atomic_compare_exchange_strong_explicit(&window, &expected, drawn, memory_order_relaxed,
                                               memory_order_relaxed))
    return expected;
  return drawn;
}

char *random_place_map(size_t bytes, size_t alignment, size_t ahead) {
  if (option_guard() == GUARD_OFF || !unit_may_cut_mappings()) return NULL;
  uintptr_t start = atomic_load_explicit(&window, memory_order_relaxed);
  if (start == 0) start = draw_window();
  uintptr_t window_bytes = (start & IS_NARROW) != 0 ? NARROW_BYTES : WINDOW_BYTES;
  if (bytes > window_bytes / 8 || alignment > window_bytes / 16) return NULL;
  start &= ~(uintptr_t)IS_NARROW;
  uintptr_t places = (window_bytes - bytes) / alignment;
  ahead %= alignment;
  for (int i = 0; i < TRIES; i++) {
    uintptr_t at = start + (uintptr_t)(next() % places + 1) * alignment - ahead;
    char *p = os_map_at((char *)at, bytes); // NOLINT(performance-no-int-to-ptr): a place
    if (p != NULL) return p;
  }
  return NULL;
}

void random_place_fork_child(void) {
  atomic_fetch_add_explicit(&sequence, mix((uint64_t)os_process()), memory_order_relaxed);
}

#endif

typedef int random_place_translation_unit_is_not_empty;
