/* huge_cut.c - see huge_cut.h. */
#include "superslab/huge_cut.h"

#include "superslab/guard_pages.h"
#include "superslab/mappings.h"
#include "superslab/unit_os.h"

/* Less than an eighth of the block is no reason for two system calls, and for one more mapping. */
enum { WORTH_SHARE = 8 };

static bool is_fenced(const struct superslab *superslab) {
  return HAK_HARDENED && superslab->fenced;
}

static char *end_of(const struct superslab *superslab) {
  return superslab->base + ((size_t)superslab->huge_units << UNIT_SHIFT);
}

/* Behind the block, and behind its guard. */
static size_t tail_bytes(const struct superslab *superslab) {
  size_t left = (size_t)(end_of(superslab) - superslab->base) - huge_guard_at(superslab);
  size_t guard = is_fenced(superslab) ? UNITS_GUARD : 0;
  return left > guard ? left - guard : 0;
}

static size_t front_bytes(const struct superslab *superslab) {
  return is_fenced(superslab) ? UNIT_BYTES - UNITS_GUARD : 0;
}

/* The mark comes first: another thread may get the place at once, and whoever checks copies looks for the mark. */
static void unmap_as(struct superslab *superslab, uint32_t cut, char *from, size_t bytes) {
  superslab->huge_cuts |= cut;
  if (!os_unmap(from, bytes)) superslab->huge_cuts &= ~cut;
}

void huge_cut(struct superslab *superslab, bool from_os) {
  size_t tail = tail_bytes(superslab), front = front_bytes(superslab);
  if ((tail + front) * WORTH_SHARE < superslab->huge_usable || superslab->explicit_pages) return;
  if (!from_os && !unit_was_refused()) return;
  if (!os_memory_is_limited() || !mappings_have_room()) return;
  if (tail > 0) unmap_as(superslab, HUGE_CUT_TAIL, end_of(superslab) - tail, tail);
  if (front > 0) unmap_as(superslab, HUGE_CUT_FRONT, superslab->base - UNIT_BYTES, front);
}

bool huge_mend(struct superslab *superslab) {
  size_t tail = tail_bytes(superslab), front = front_bytes(superslab);
  if ((superslab->huge_cuts & HUGE_CUT_TAIL) != 0 &&
      os_map_at(end_of(superslab) - tail, tail) != NULL)
    superslab->huge_cuts &= ~(uint32_t)HUGE_CUT_TAIL;
  if ((superslab->huge_cuts & HUGE_CUT_FRONT) != 0 &&
      os_map_at(superslab->base - UNIT_BYTES, front) != NULL)
    superslab->huge_cuts &= ~(uint32_t)HUGE_CUT_FRONT;
  return superslab->huge_cuts == 0;
}

struct huge_rest huge_mend_for_pool(struct superslab *superslab) {
  if (superslab->huge_cuts == 0 || (!unit_was_refused() && huge_mend(superslab)))
    return (struct huge_rest){0};
  size_t ahead = is_fenced(superslab) ? 1 : 0;
  struct huge_rest rest = {.base = superslab->base - (ahead << UNIT_SHIFT),
                           .units = ahead + superslab->huge_units};
  rest.from = rest.base;
  rest.to = end_of(superslab);
  if ((superslab->huge_cuts & HUGE_CUT_FRONT) != 0) rest.from += front_bytes(superslab);
  if ((superslab->huge_cuts & HUGE_CUT_TAIL) != 0) rest.to -= tail_bytes(superslab);
  return rest;
}

void huge_rest_release(struct huge_rest rest) {
  unit_count(&unit_counts.released, 1);
  mappings_set(rest.base, rest.units, MAPPING_NONE);
  if (os_unmap(rest.from, (size_t)(rest.to - rest.from))) {
    unit_account(-(ptrdiff_t)rest.units);
    return;
  }
  /* Refused, it stays mapped for ever, as in units_discard: the pool takes whole units only. */
  os_decommit(rest.from, (size_t)(rest.to - rest.from));
  mappings_set(rest.base, rest.units, MAPPING_PLAIN);
}
