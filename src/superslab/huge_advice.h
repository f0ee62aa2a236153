/* huge_advice.h - for which units of a Huge block huge pages are asked for (docs/decisions/0004). */
#ifndef HAK_HUGE_ADVICE_H
#define HAK_HUGE_ADVICE_H

#include "superslab/guard_pages.h"
#include "superslab/superslab.h"

/** Units of a block of so many bytes; of a fenced one with room for a page behind it. */
HAK_INLINE size_t huge_units_for(size_t bytes, bool fenced) {
  if (bytes > PTRDIFF_MAX) return bytes >> UNIT_SHIFT;
  if (fenced) bytes = round_to_page(bytes) + os_page_size();
  return bytes == 0 ? 1 : (bytes + UNIT_BYTES - 1) >> UNIT_SHIFT;
}

/* `end`: bytes of the block; of a fenced one to where its guard begins. */

/** In how many units of a block huge pages are wanted: all, or all but the last. */
size_t huge_units_to_advise(size_t end);

#define NO_UNIT SIZE_MAX
/** Asks for huge pages in new units of a block, from the one numbered `from` on, but not in the one numbered `but` (NO_UNIT: in all). */
void huge_advise(char *base, size_t from, size_t end, size_t but);

/** Huge pages, or not, for what a block was grown by. `from`: units that it had. What was asked for in those goes for the new ones, too. */
void huge_advise_moved(const struct superslab *superslab, size_t from);

#if HAK_HARDENED
/** Where the guard behind a fenced block of so many bytes is to begin, counted from its start. With the next page in full, and where the
 * address space has a limit. In light an eighth further up where the block `grows`; and behind the last unit where that would be a
 * huge page without guards: a guard in it would keep it from becoming one. What lies before it is the block's alone. */
size_t huge_guard_place(size_t bytes, bool grows);
/** The same for a block that is to have so many bytes: in light the guard stays where it is as long as it serves. */
size_t huge_guard_place_for(const struct superslab *superslab, size_t bytes);
#else
HAK_INLINE size_t huge_guard_place(size_t bytes, bool grows) {
  return (void)grows, round_to_page(bytes);
}
HAK_INLINE size_t huge_guard_place_for(const struct superslab *superslab, size_t bytes) {
  return (void)superslab, round_to_page(bytes);
}
#endif

#endif
