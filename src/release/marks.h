/* marks.h - when enough memory waits for the release engine to be called (release.h). */
#ifndef HAK_MARKS_H
#define HAK_MARKS_H

#include "heap/heap.h"

/* Free memory that is worth a helper thread; shared out among the heaps. */
#define RELEASE_BYTES (8 * MIB)

/** Has the heap gathered enough free memory since it was last least? The caller holds heap->lock. */
bool release_is_due(struct heap *heap);
/** Are so many bytes in one heap's inbox worth the engine? Its thread may sleep, so the sender asks. */
bool release_inbox_is_due(size_t bytes);
/** Sets the mark from which release_is_due counts; under heap->lock, or before the heap is known. */
void release_set_mark(struct heap *heap);
/** After memory went below the heaps (slices of SuperSlabs, the warm pool): calls the engine when enough has
 * gathered there. Holds no lock. */
void release_check_below(void);
/** Sets the mark from which release_check_below counts. */
void release_mark_below(void);

#endif
