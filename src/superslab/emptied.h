/* emptied.h - SuperSlabs that nobody uses any more: kept, or given up.
 *
 * For this room alone. */
#ifndef HAK_EMPTIED_H
#define HAK_EMPTIED_H

#include "superslab/superslab.h"

/** After slices became free, under superslab_lock. True: the SuperSlab is empty and was taken out of every list and the
 * address map. It goes to one of the next two. False: it is in the list it belongs to. */
bool emptied_or_listed(struct superslab *superslab);

/** Gives its unit up. Makes system calls: the caller holds no lock. */
void emptied_release(struct superslab *superslab);

/** The same when this thread calls superslab_settle. */
void emptied_put_off(struct superslab *superslab);

#endif
