/* descriptor.h - descriptors of units. Their addresses are never used for anything else: what was freed is used again. */
#ifndef HAK_DESCRIPTOR_H
#define HAK_DESCRIPTOR_H

#include "superslab/superslab.h"

/** A descriptor of a SuperSlab, cleared; NULL: no memory. */
struct superslab *descriptor_new(void);
/** Makes a descriptor free for reuse; under superslab_lock. */
void descriptor_free(struct superslab *superslab);

/** The same of a Huge block: only the first of its `slabs` is there, and `huge_units` is as it was. */
struct superslab *descriptor_new_huge(void);
void descriptor_free_huge(struct superslab *superslab);
/** Gives back pages that only descriptors of freed Huge blocks lie in, if there are many. No lock. */
void huge_descriptors_settle(void);
/** For descriptors_forget. */
void huge_descriptors_forget(void);

/** The hardened variant has states of blocks, all zeros in a free descriptor. As many free ones as the warm pool has units keep the pages of theirs, for
 * SuperSlabs that come back; this gives back those of the others. The caller holds no lock. */
#if HAK_HARDENED
void descriptors_give_states(void);
#else
static inline void descriptors_give_states(void) {}
#endif

/** In the child of a fork where nothing that superslab_lock guards is to be trusted: leaves what is free where it is. */
void descriptors_forget(void);

#endif
