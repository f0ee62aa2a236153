/* fallback.c - see fallback.h. */
#include "heap/fallback.h"

#include "heap/bins.h"
#include "heap/refill.h"

/* The blocks in use of a class vary at random, and each new record takes a block more, and a page now and then:
 * ever more slowly, and without end. A free block of one of the next larger classes serves as well, and costs no
 * page (docs/decisions/0013). Not more than so many in a row, one more each so many milliseconds, and none
 * after a new page until that time has passed. So a program that grows gets blocks of the right size,
 * and a class that grew for good does not come here for each block. */
enum { FALLBACKS_MOST = 16, FALLBACK_MS = 16, FALLBACK_CLASSES = 4 };

/* A new block of 4 KiB or more is new pages each time, and of each such class a heap would in time hold the most that
 * was ever in use at once. These classes fall back for as long as touching a block of their own would take, 512 bytes a
 * fallback. Who rents until buying would have cost as much, and then buys, pays at most twice the least that
 * was possible, whatever comes (Karlin and others, "Competitive snoopy caching", 1988). */
#define BYTES_A_FALLBACK ((size_t)512)
_Static_assert(SMALL_MAX / BYTES_A_FALLBACK <= UINT8_MAX, "bin_use.own_fallbacks holds as many");

static bool has_own_fallbacks(unsigned size_class) {
  return class_size(size_class) >= REFILL_BYTES;
}

static bool may_fall_back(struct thread_cache *cache, unsigned size_class) {
  if (has_own_fallbacks(size_class))
    return cache->use[size_class].own_fallbacks < class_size(size_class) / BYTES_A_FALLBACK;
  if (cache->fallbacks > 0) return true;
  uint64_t now = os_clock_ms();
  if (now < cache->fallbacks_since + FALLBACK_MS) return false;
  uint64_t more = (now - cache->fallbacks_since) / FALLBACK_MS;
  cache->fallbacks = more < FALLBACKS_MOST ? (uint8_t)more : FALLBACKS_MOST;
  cache->fallbacks_since = now;
  return true;
}

void *fallback_take(struct thread_cache *cache, unsigned size_class) {
  if (!may_fall_back(cache, size_class)) return NULL;
  size_t most = (size_t)class_size(size_class) * 2;
  unsigned last = size_class + FALLBACK_CLASSES;
  for (unsigned c = size_class; c < CLASS_COUNT - 1 && c < last;) {
    if (class_size(++c) > most) break;
    /* hardened: blocks of the class read as zeros, those of larger ones may not (HAKMEM_GUARD_ZERO) */
    if (link_zeroes(size_class) && !link_zeroes(c)) break;
    void *block = bin_pop(&cache->bins[c]);
    if (block == NULL) continue;
    if (has_own_fallbacks(size_class)) cache->use[size_class].own_fallbacks++;
    else cache->fallbacks--;
    return block;
  }
  return NULL;
}

void fallback_end(struct thread_cache *cache, unsigned size_class) {
  if (has_own_fallbacks(size_class)) {
    cache->use[size_class].own_fallbacks = 0;
  } else {
    cache->fallbacks = 0;
    cache->fallbacks_since = os_clock_ms();
  }
}
