/* huge_advice.c - see huge_advice.h. */
#include "superslab/huge_advice.h"

#include "policy/options.h"
#include "superslab/unit_os.h"

static void advise(char *base, size_t from, size_t to) {
  if (to > from) unit_advise_huge(base + (from << UNIT_SHIFT), to - from);
}

/* The last, partly used unit stays with small pages if what it leaves unused is more than so small a part of the block, and in lean processes in
 * any case. */
#define UNUSED_SHARE 4
size_t huge_units_to_advise(size_t bytes) {
  /* A unit with a guarded page cannot be a huge one. */
  if (guard_pages_wanted()) bytes = bytes >> UNIT_SHIFT << UNIT_SHIFT;
  size_t units = huge_units_for(bytes, false), unused = (units << UNIT_SHIFT) - bytes;
  size_t bearable = option_value(SS_MEM_LEAN) ? 0 : bytes / UNUSED_SHARE;
  return unused > bearable ? units - 1 : units;
}

void huge_advise(char *base, size_t from, size_t bytes, size_t but) {
  if (option_value(SS_HUGEPAGE) != HUGEPAGE_THP) return;
  size_t units = huge_units_to_advise(bytes);
  if (but != NO_UNIT) {
    advise(base, from, but < units ? but : units);
    from = but + 1;
  }
  advise(base, from, units);
}
