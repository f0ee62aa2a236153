/* empty.c - see empty.h. */
#include "front/empty.h"

#if HAK_HARDENED

#include "os/os.h"

enum { WORD_BITS = 64, WORDS = EMPTY_BLOCKS / WORD_BITS };
#define EMPTY_BYTES ((size_t)EMPTY_BLOCKS * BLOCK_ALIGNMENT)

_Atomic uintptr_t empty_pages;
/* A bit for each that lives. Relaxed, all of it: a block has no bytes that one thread could write and another read. */
static _Atomic uint64_t live[WORDS];
/* Where the next search begins, so that an address that was freed waits until all others had their turn. */
static _Atomic uint32_t next;

static uintptr_t map_pages(void) {
  char *pages = os_map(EMPTY_BYTES);
  bool closed = pages != NULL && os_protect(pages, EMPTY_BYTES, false);
  if (pages != NULL && !closed) (void)os_unmap(pages, EMPTY_BYTES);
  return closed ? (uintptr_t)pages : EMPTY_REFUSED;
}

static uintptr_t pages(void) {
  uintptr_t base = atomic_load_explicit(&empty_pages, memory_order_relaxed);
  if (HAK_LIKELY(base != 0)) return base;
  uintptr_t mine = map_pages();
  if (atomic_compare_exchange_strong_explicit(&empty_pages, &base, mine, memory_order_relaxed,
                                              memory_order_relaxed))
    return mine;
  if (mine != EMPTY_REFUSED) (void)os_unmap((void *)mine, EMPTY_BYTES);
  return base;
}

/* One of the `open` blocks of a word. */
static bool take_of(uint32_t word, uint64_t open, uint32_t *number) {
  while ((open &= ~atomic_load_explicit(&live[word], memory_order_relaxed)) != 0) {
    uint64_t bit = open & -open;
    if ((atomic_fetch_or_explicit(&live[word], bit, memory_order_relaxed) & bit) != 0) continue;
    *number = word * WORD_BITS + (uint32_t)__builtin_ctzll(bit);
    return true;
  }
  return false;
}

void *empty_take(void) {
  uintptr_t base = pages();
  if (base == EMPTY_REFUSED) return NULL;
  uint32_t first = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % EMPTY_BLOCKS;
  uint64_t open = ~UINT64_C(0) << first % WORD_BITS;
  for (uint32_t i = 0; i <= WORDS; i++, open = ~UINT64_C(0)) {
    uint32_t number;
    if (take_of((first / WORD_BITS + i) % WORDS, open, &number))
      return (void *)(base +
                      (uintptr_t)number * BLOCK_ALIGNMENT); // NOLINT(performance-no-int-to-ptr)
  }
  return NULL;
}

static uint64_t bit_of(const void *pointer, _Atomic uint64_t **word) {
  uintptr_t offset = (uintptr_t)pointer - atomic_load_explicit(&empty_pages, memory_order_relaxed);
  *word = &live[offset / BLOCK_ALIGNMENT / WORD_BITS];
  return offset % BLOCK_ALIGNMENT != 0 ? 0 : UINT64_C(1) << offset / BLOCK_ALIGNMENT % WORD_BITS;
}

bool empty_put(const void *block) {
  _Atomic uint64_t *word;
  uint64_t bit = bit_of(block, &word);
  return (atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed) & bit) != 0;
}

bool empty_lives(const void *pointer) {
  _Atomic uint64_t *word;
  uint64_t bit = bit_of(pointer, &word);
  return (atomic_load_explicit(word, memory_order_relaxed) & bit) != 0;
}

#endif

typedef int empty_translation_unit_is_not_empty;
