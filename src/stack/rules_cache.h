/* rules_cache.h - the rules of places in the code that were walked through before. Those of nearly all functions fit into a word.
 *
 * It says: CFA = register + 8 * offset; each saved register at CFA - 8 * n, or as it is (n = 0). The processor's own
 * rules (the return address below the CFA, the stack pointer at it) are not said.
 */
#ifndef HAK_RULES_CACHE_H
#define HAK_RULES_CACHE_H

#include <stdatomic.h>

#include "os/os.h"
#include "stack/cfi.h"

#if STACK_HAS_TABLES

/* Sets of four, one cache line each. Stacks of cmake have 600 places: with 512 entries, or 2,048 in sets of one, some of them drove each
 * other out for ever, and each time the tables had to be read (docs/decisions/0041). */
enum { RULES_SETS_BITS = 9, RULES_WAYS = 4 };
enum { RULES_OFFSET_BITS = 20, RULES_REGISTER_BITS = 3, RULES_UNIT = 8 };
#if defined(__x86_64__)
enum { RULES_SAVED_BITS = 6 };
#else
enum { RULES_SAVED_BITS = 18 };
#endif

#define RULES_THERE (UINT64_C(1) << 63)
#define RULES_END (UINT64_C(1) << 62) /* nobody called this function */
_Static_assert(RULES_OFFSET_BITS + RULES_REGISTER_BITS + CPU_SAVED * RULES_SAVED_BITS <= 62,
               "fits into a word");

/* From the lowest bits on: the saved registers, the first one lowest; the CFA's register; its offset. */
HAK_INLINE uintptr_t rules_saved(uint64_t word, int index) {
  return (word >> (index * RULES_SAVED_BITS) & ((1U << RULES_SAVED_BITS) - 1)) * RULES_UNIT;
}
HAK_INLINE unsigned rules_cfa_register(uint64_t word) {
  return word >> (CPU_SAVED * RULES_SAVED_BITS) & ((1U << RULES_REGISTER_BITS) - 1);
}
HAK_INLINE uintptr_t rules_cfa_offset(uint64_t word) {
  return (word >> (CPU_SAVED * RULES_SAVED_BITS + RULES_REGISTER_BITS) &
          ((1U << RULES_OFFSET_BITS) - 1)) *
         RULES_UNIT;
}

/* Written and read without a lock: the key is the place mixed with the rules, so that a key of one writer beside
 * the rules of another fits neither's place (Hyatt and Mann, A lock-less transposition table, 2002). relaxed: each
 * word is whole, and nothing else is read through them. */
struct rules_entry {
  _Atomic uint64_t rules, key;
};
extern struct rules_entry rules_entries[1 << RULES_SETS_BITS][RULES_WAYS] HAK_HIDDEN; /* 32 KiB */

#define RULES_ODD UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio */

HAK_INLINE struct rules_entry *rules_set_of(uintptr_t code) {
  return rules_entries[(code * RULES_ODD) >> (64 - RULES_SETS_BITS)];
}

HAK_INLINE uint64_t rules_key(uintptr_t code, uint64_t word) {
  uint64_t mixed = word * RULES_ODD;
  return code ^ mixed ^ mixed >> 32;
}

/** The word for a place; 0: it is not there. Rules of an object that was unmapped may stay: another one at its address is
 * walked through by them until they are replaced. */
HAK_INLINE uint64_t rules_cached(uintptr_t code) {
  struct rules_entry *set = rules_set_of(code);
  for (unsigned way = 0; way < RULES_WAYS; way++) {
    uint64_t word = atomic_load_explicit(&set[way].rules, memory_order_relaxed);
    uint64_t key = atomic_load_explicit(&set[way].key, memory_order_relaxed);
    if (key == rules_key(code, word) && (word & RULES_THERE) != 0) return word;
  }
  return 0;
}

/** Before the first look-up: something is written to each page, which takes one fault so instead of two. */
void rules_touch(void);

/** Keeps rules, if they fit. Any thread, at any time. */
void rules_cache(uintptr_t code, const struct frame_rules *rules);

#endif
#endif
