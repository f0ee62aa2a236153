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

/** In how many units of a block of so many bytes huge pages are wanted: all, or all but the last. */
size_t huge_units_to_advise(size_t bytes);

#define NO_UNIT SIZE_MAX
/** Asks for huge pages in new units of a block, from the one numbered `from` on, but not in the one numbered `but` (NO_UNIT: in all). */
void huge_advise(char *base, size_t from, size_t bytes, size_t but);

#endif
