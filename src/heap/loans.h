/* loans.h - a free block of a larger class, before a refill touches a new page (docs/decisions/0013). */
#ifndef HAK_LOANS_H
#define HAK_LOANS_H

#include "heap/heap.h"

/** A free block of one of the next larger classes out of the bins of the calling thread's heap, or NULL: none is there, or the
 * class has had its loans. It returns to its own class when it is freed. */
void *loan_take(struct heap *heap, unsigned size_class);

/** A new page is about to be touched for the class: no loans for a while, or, for a class with loans of its own, all of them
 * again. */
void loan_end(struct heap *heap, unsigned size_class);

#endif
