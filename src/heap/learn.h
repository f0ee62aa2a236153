/* learn.h - HAKMEM_LEARN=1: cache depths and refills that follow the traffic. */
#ifndef HAK_LEARN_H
#define HAK_LEARN_H

#include "heap/heap.h"

/** The bin of the class was empty, or ran over; the heap's thread only. */
void learn_refill(struct heap *heap, unsigned size_class);
void learn_overflow(struct heap *heap, unsigned size_class);

/** Takes capacity away from a class without traffic; false: none was found at this attempt. */
bool learn_reclaim(struct heap *heap, unsigned for_class);

#endif
