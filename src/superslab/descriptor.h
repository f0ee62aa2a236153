/* descriptor.h - what superslab.c and huge.c share below their interface. */
#ifndef HAK_DESCRIPTOR_H
#define HAK_DESCRIPTOR_H

#include "superslab/superslab.h"

/** A descriptor of a unit, cleared; NULL: no memory. */
struct superslab *descriptor_new(void);
/** Makes a descriptor free for reuse; under superslab_lock. */
void descriptor_free(struct superslab *superslab);

/** Huge blocks in use and their bytes; under superslab_lock. */
void huge_counts(uint64_t *live, uint64_t *bytes);

#endif
