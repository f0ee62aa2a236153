/* loans.c - see loans.h. */
#include "heap/loans.h"

#include "heap/bins.h"

/* The blocks in use of a class vary at random, and each new record takes a block more, and a page now and then:
 * ever more slowly, and without end. A free block of one of the next larger classes serves as well, and costs no
 * page (docs/decisions/0013). Not more than so many in a row, one more each so many milliseconds, and none
 * after a new page until that time has passed: a program that grows gets blocks of the right size, and a
 * class that grew for good does not have to come here for each block. */
enum { LOANS_MOST = 16, LOAN_MS = 16, LENDERS = 4 };

/* A new block of 4 KiB or more is new pages each time, and of each such class a heap would in time hold the most that
 * was ever in use at once. These classes borrow for as long as touching a block of their own would take, 512 bytes a
 * loan. Who rents until buying would have cost as much, and then buys, pays at most twice the least that
 * was possible, whatever comes (Karlin and others, "Competitive snoopy caching", 1988). */
#define OWN_LOANS_FROM ((size_t)4 * KIB)
#define BYTES_A_LOAN ((size_t)512)
_Static_assert(SMALL_MAX / BYTES_A_LOAN <= UINT8_MAX, "heap->borrowed holds as many");

static bool has_own_loans(unsigned size_class) { return class_size(size_class) >= OWN_LOANS_FROM; }

static bool may_borrow(struct heap *heap, unsigned size_class) {
  if (has_own_loans(size_class))
    return heap->borrowed[size_class] < class_size(size_class) / BYTES_A_LOAN;
  if (heap->loans > 0) return true;
  uint64_t now = os_clock_ms();
  if (now < heap->loans_since + LOAN_MS) return false;
  uint64_t more = (now - heap->loans_since) / LOAN_MS;
  heap->loans = more < LOANS_MOST ? (uint8_t)more : LOANS_MOST;
  heap->loans_since = now;
  return true;
}

void *loan_take(struct heap *heap, unsigned size_class) {
  if (!may_borrow(heap, size_class)) return NULL;
  size_t most = (size_t)class_size(size_class) * 2;
  unsigned last = size_class + LENDERS;
  for (unsigned c = size_class; c < CLASS_COUNT - 1 && c < last;) {
    if (class_size(++c) > most) break;
    /* hardened: blocks of the class read as zeros, those of larger ones may not (HAKMEM_GUARD_ZERO) */
    if (link_zeroes(size_class) && !link_zeroes(c)) break;
    void *block = bin_pop(&heap->bins[c]);
    if (block == NULL) continue;
    if (has_own_loans(size_class)) heap->borrowed[size_class]++;
    else heap->loans--;
    return block;
  }
  return NULL;
}

void loan_end(struct heap *heap, unsigned size_class) {
  if (has_own_loans(size_class)) {
    heap->borrowed[size_class] = 0;
  } else {
    heap->loans = 0;
    heap->loans_since = os_clock_ms();
  }
}
