/* huge_advice.c - see huge_advice.h. */
#include "superslab/huge_advice.h"

#include "policy/options.h"
#include "superslab/mappings.h"
#include "superslab/unit_os.h"

static void advise(char *base, size_t from, size_t to) {
  if (to > from) unit_advise_huge(base + (from << UNIT_SHIFT), to - from);
}

/* The last, partly used unit stays with small pages if what it leaves unused is more than so small a part of the block, and in lean processes in
 * any case. */
#define UNUSED_SHARE 4
static size_t units_worth(size_t bytes) {
  size_t units = huge_units_for(bytes, false), unused = (units << UNIT_SHIFT) - bytes;
  size_t bearable = option_value(SS_MEM_LEAN) ? 0 : bytes / UNUSED_SHARE;
  return unused > bearable ? units - 1 : units;
}

size_t huge_units_to_advise(size_t end) {
  /* A unit with a guarded page cannot be a huge one. */
  return guard_pages_wanted() ? end >> UNIT_SHIFT : units_worth(end);
}

#if HAK_HARDENED

/* For a block that grows: it saves the calls that move its guard, page by page perhaps. Memory it costs none. */
static size_t with_room(size_t usable) { return round_to_page(usable + huge_guard_room(usable)); }

size_t huge_guard_place(size_t bytes, bool grows) {
  size_t usable = round_to_page(bytes);
  if (option_guard() != GUARD_LIGHT || os_memory_is_limited()) return usable;
  if (grows) usable = with_room(usable);
  if (option_value(SS_HUGEPAGE) != HUGEPAGE_THP) return usable;
  size_t units = units_worth(usable) << UNIT_SHIFT;
  return units > usable ? units : usable;
}

size_t huge_guard_place_for(const struct superslab *superslab, size_t bytes) {
  bool grows = bytes > superslab->huge_usable;
  size_t guard_at = huge_guard_at(superslab), usable = round_to_page(bytes);
  bool serves = grows ? guard_at >= usable : huge_guard_serves(guard_at, usable);
  return serves && option_guard() == GUARD_LIGHT ? guard_at : huge_guard_place(bytes, grows);
}

#endif

void huge_advise(char *base, size_t from, size_t end, size_t but) {
  if (option_value(SS_HUGEPAGE) != HUGEPAGE_THP) return;
  size_t units = huge_units_to_advise(end);
  if (but != NO_UNIT) {
    advise(base, from, but < units ? but : units);
    from = but + 1;
  }
  advise(base, from, units);
}

void huge_advise_moved(const struct superslab *superslab, size_t from) {
  size_t end = huge_guard_at(superslab);
  size_t units = superslab->huge_units, huge = huge_units_to_advise(end);
  huge_advise(superslab->base, from, end, NO_UNIT);
  if (huge >= from && huge < units && mappings_any_huge(superslab->base, units))
    unit_advise_small(superslab->base + (huge << UNIT_SHIFT), units - huge);
}
