/* huge_cut.h - under a limit of the address space, a Huge block without the address space that it has for nothing.
 *
 * A Huge block has whole units, and if it is fenced one more in front. A block of 1.2 MB so takes 2 MiB, a fenced one 4 MiB. Where RLIMIT_AS
 * or RLIMIT_DATA counts that, what is never touched is unmapped: behind the block's last page, or behind the guard there, and in front of
 * the guard in front. Before the units go elsewhere they are mended. If others have the place by then, or the limit has no room, what is
 * left of the units goes to the system (docs/decisions/0043). */
#ifndef HAK_HUGE_CUT_H
#define HAK_HUGE_CUT_H

#include "superslab/superslab.h"

/** Cuts a new block if that is worth it. `from_os`: its units are new; those of the warm pool are cut only where the limit has just been met. The
 * caller is its only holder. */
void huge_cut(struct superslab *superslab, bool from_os);
/** Maps again what was cut. False: not all of it. The same caller. */
bool huge_mend(struct superslab *superslab);

/* What is mapped of a block's units; `units` of 0: all of them. */
struct huge_rest {
  char *base, *from, *to;
  size_t units;
};
/** huge_mend for units that nobody uses any more; and what is left if they are not whole. Not where the limit has just been met: they would be
 * handed out uncut. */
struct huge_rest huge_mend_for_pool(struct superslab *superslab);
/** Gives it to the system. */
void huge_rest_release(struct huge_rest rest);

#endif
