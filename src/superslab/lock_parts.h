/* lock_parts.h - spans and Huge blocks of a program that locks all its memory and has met the limit for it (os/locked.h). Else all of it does
 * nothing. */
#ifndef HAK_LOCK_PARTS_H
#define HAK_LOCK_PARTS_H

#include "os/locked.h"
#include "superslab/superslab.h"

/** A Large span is handed out, or has grown. False: no more may be locked. */
HAK_INLINE bool span_lock(const struct slab *span) {
  return os_lock_part(slab_base(span), span_usable(span));
}
/** Where it starts; NULL: it is NULL, or was released since no more may be locked. */
void *span_locked(struct slab *span);

/** The same of a Huge block. */
struct superslab *huge_locked(struct superslab *superslab);
/** It is about to have so many bytes: what it grows by is locked, what it gives up no longer is. False: no more may be locked. */
bool huge_lock_resized(const struct superslab *superslab, size_t bytes);
/** Before `from` moves into the first units of `to`: these are locked whole, or the kernel has two mappings to move. */
bool huge_lock_moved(const struct superslab *from, size_t units, const struct superslab *to);

/** Once in a process, after the limit has refused a mapping: what was mapped, and locked whole, before. Units of the warm pool, free slices, what
 * lies behind Huge blocks, and our own tables are locked no more. The caller holds no lock of this room. */
void unlock_unused(void);

#endif
