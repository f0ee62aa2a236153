/* huge.c - blocks in units of their own, which grow by mapping behind them or by moving their pages. */
#include <string.h>

#include "observe/counters.h"
#include "observe/report.h"
#include "policy/options.h"
#include "superslab/descriptor.h"
#include "superslab/whole.h"

/* Under superslab_lock. */
static uint64_t huge_live HAK_START_DATA, huge_bytes HAK_START_DATA;

void huge_counts(uint64_t *live, uint64_t *bytes) {
  *live = huge_live;
  *bytes = huge_bytes;
}

static size_t units_for(size_t bytes) {
  return bytes == 0 ? 1 : (bytes + UNIT_BYTES - 1) >> UNIT_SHIFT;
}

static size_t round_to_page(size_t bytes) {
  size_t page = os_page_size();
  return bytes == 0 ? page : (bytes + page - 1) & ~(page - 1);
}

/* The caller holds superslab_lock. A block is in the figures after its units are counted as mapped, and out of them before
 * the first one goes: who reads both finds no more bytes of huge blocks than are mapped. */
static void count_in(const struct superslab *superslab) {
  huge_live++;
  huge_bytes += (uint64_t)superslab->huge_units << UNIT_SHIFT;
}

static void count_out(const struct superslab *superslab) {
  huge_live--;
  huge_bytes -= (uint64_t)superslab->huge_units << UNIT_SHIFT;
}

static void advise(char *base, size_t from, size_t to) {
  if (to > from) os_advise_huge(base + (from << UNIT_SHIFT), (to - from) << UNIT_SHIFT);
}

/* Asks for huge pages in new units of a block, from the one numbered `from` on, but not in the one numbered `but`
 * (NO_UNIT: in all). The last, partly used unit stays with small pages if what it leaves unused is more than so small a part of the block, and in lean
 * processes in any case (docs/decisions/0004). */
#define UNUSED_SHARE 4
#define NO_UNIT SIZE_MAX
static void huge_advise(char *base, size_t from, size_t bytes, size_t but) {
  if (option_value(SS_HUGEPAGE) != HUGEPAGE_THP) return;
  size_t units = units_for(bytes), unused = (units << UNIT_SHIFT) - bytes;
  size_t bearable = option_value(SS_MEM_LEAN) ? 0 : bytes / UNUSED_SHARE;
  if (unused > bearable) units--;
  if (but != NO_UNIT) {
    advise(base, from, but < units ? but : units);
    from = but + 1;
  }
  advise(base, from, units);
}

/* Are new units for a block likely to be written altogether? One that grows was. */
static enum whole_answer expectation(struct superslab *superslab, struct unit_run run,
                                     size_t to_come) {
  size_t units = superslab->huge_units;
  if (to_come > 0 || units > WHOLE_UNITS_MOST) return WHOLE_YES;
  if (run.huge_pages || run.used == units || option_value(SS_HUGEPAGE) != HUGEPAGE_THP)
    return WHOLE_NO;
  /* Pages that were in use before would tell nothing. */
  return whole_expected((enum whole_kind)units, run.used > 0 ? NULL : superslab);
}

/* `to_come`: so many of the first units get their pages from elsewhere, those of the warm pool would be lost there. */
static struct superslab *huge_new(size_t bytes, size_t alignment, size_t to_come, bool *zeroed) {
  size_t units = units_for(bytes);
  if (units > UINT32_MAX / 2) return NULL;
  struct superslab *superslab = descriptor_new();
  if (superslab == NULL) return NULL;
  struct unit_run run = to_come > 0 ? unit_reserve(units, to_come) : unit_acquire(units, alignment);
  if (run.base != NULL) {
    superslab->base = run.base;
    superslab->huge_units = (uint32_t)units;
    superslab->huge_usable = round_to_page(bytes);
    superslab->huge_pages = superslab->explicit_pages = run.huge_pages;
    if (map_set(run.base, units, superslab)) {
      enum whole_answer whole = expectation(superslab, run, to_come);
      size_t but = whole == WHOLE_BUT_SAMPLE ? whole_sample_unit(units) : NO_UNIT;
      if (whole != WHOLE_NO && !run.huge_pages)
        huge_advise(run.base, to_come + run.used, bytes, but);
      lock_acquire(&superslab_lock);
      counters_supply(COUNTED_HUGE, run.from_os ? SUPPLY_MISS : SUPPLY_HIT, 1);
      count_in(superslab);
      lock_release(&superslab_lock);
      *zeroed = run.zeroed;
      return superslab;
    }
    unit_release(run.base, units, run.huge_pages);
  }
  lock_acquire(&superslab_lock);
  if (run.from_os) counters_supply(COUNTED_HUGE, SUPPLY_MISS, 1);
  descriptor_free(superslab);
  lock_release(&superslab_lock);
  return NULL;
}

struct superslab *huge_acquire(size_t bytes, size_t alignment, bool *zeroed) {
  struct superslab *superslab = huge_new(bytes, alignment, 0, zeroed);
  unit_settle();
  return superslab;
}

/* Takes the block at `pointer` for the caller alone. The claim decides; only the winner may look at the
 * descriptor, which may be another block's by then if the program frees twice. */
static bool huge_claim(struct superslab *superslab, const char *pointer) {
  if (!map_claim(pointer, superslab)) return false;
  if (superslab->base == pointer && superslab->huge_units != 0) return true;
  map_set(pointer, 1, superslab); /* reused meanwhile; its window is writable: cannot fail */
  return false;
}

bool huge_release(struct superslab *superslab, const char *pointer) {
  if (!huge_claim(superslab, pointer)) return false;
  char *base = superslab->base;
  size_t units = superslab->huge_units;
  bool explicit_pages = superslab->explicit_pages;
  whole_last_look(superslab);
  map_clear(base, units);
  lock_acquire(&superslab_lock);
  count_out(superslab);
  whole_forget(superslab);
  descriptor_free(superslab);
  lock_release(&superslab_lock);
  unit_release(base, units, explicit_pages);
  return true;
}

static void huge_set_size(struct superslab *superslab, size_t units, size_t bytes) {
  lock_acquire(&superslab_lock);
  huge_bytes += ((uint64_t)units - superslab->huge_units) << UNIT_SHIFT;
  whole_forget(superslab);
  superslab->huge_units = (uint32_t)units;
  lock_release(&superslab_lock);
  superslab->huge_usable = round_to_page(bytes);
}

/* Moves the block's pages to the start of another run and gives its units up. A unit that does not move is
 * copied. False: nothing was moved. */
static bool move_pages(struct superslab *from, char *to) {
  for (size_t unit = 0; unit < from->huge_units; unit++) {
    size_t at = unit << UNIT_SHIFT, used = from->huge_usable - at;
    enum unit_move moved = unit_move(from->base + at, to + at);
    if (moved == UNIT_MOVED) {
      unit_account(-1);
      continue;
    }
    /* The kernel took the place away and refuses to map it again: the block lies in two places. */
    if (moved == UNIT_PLACE_LOST)
      report_corruption("realloc: the system refused to map memory again");
    if (unit == 0) return false;
    memcpy(to + at, from->base + at, used < UNIT_BYTES ? used : UNIT_BYTES);
    unit_release(from->base + at, 1, false);
  }
  return true;
}

/* Moves the block, which the caller has claimed, to a longer run elsewhere. */
static struct superslab *huge_move(struct superslab *from, size_t bytes) {
  bool zeroed;
  if (from->explicit_pages) return NULL; /* explicit huge pages do not move on every kernel */
  struct superslab *to = huge_new(bytes, UNIT_BYTES, from->huge_units, &zeroed);
  if (to == NULL) return NULL;
  size_t old = from->huge_units;
  /* All out of the map (the first unit is by the claim) before the address range is free for others. */
  map_clear(from->base + UNIT_BYTES, old - 1);
  lock_acquire(&superslab_lock);
  count_out(from);
  lock_release(&superslab_lock);
  if (!move_pages(from, to->base)) {
    /* The first unit stays claimed until huge_resize enters it: entered twice, a free in between would
     * be undone. */
    if (old > 1) map_set(from->base + UNIT_BYTES, old - 1, from); /* writable: cannot fail */
    huge_release(to, to->base);
    lock_acquire(&superslab_lock);
    count_in(from);
    lock_release(&superslab_lock);
    return NULL;
  }
  lock_acquire(&superslab_lock);
  whole_forget(from);
  descriptor_free(from);
  lock_release(&superslab_lock);
  return to;
}

/* Grows into the address range right behind the block, to `bytes`: no page moves. */
static bool huge_extend(struct superslab *superslab, size_t bytes) {
  size_t old = superslab->huge_units, more = units_for(bytes) - old;
  char *end = superslab->base + (old << UNIT_SHIFT);
  if (superslab->explicit_pages || !unit_extend(end, more)) return false;
  if (!map_set(end, more, superslab)) {
    unit_release(end, more, false);
    return false;
  }
  huge_advise(superslab->base, old, bytes, NO_UNIT);
  return true;
}

/* The block is claimed: nobody else frees or resizes it meanwhile. False: it has to move. */
static bool resize_claimed(struct superslab *superslab, size_t bytes) {
  size_t units = units_for(bytes), old = superslab->huge_units;
  if (units > old && !huge_extend(superslab, bytes)) return false;
  huge_set_size(superslab, units, bytes);
  if (units < old) {
    char *rest = superslab->base + (units << UNIT_SHIFT);
    map_clear(rest, old - units);
    unit_release(rest, old - units, superslab->explicit_pages);
  }
  return true;
}

struct superslab *huge_resize(struct superslab *superslab, const char *base, size_t bytes) {
  if (units_for(bytes) > UINT32_MAX / 2) return NULL;
  if (!huge_claim(superslab, base)) report_bad_pointer("realloc", base, REPORT_DOUBLE_FREE);
  if (!resize_claimed(superslab, bytes)) {
    struct superslab *moved = huge_move(superslab, bytes);
    if (moved != NULL) return moved;
    map_set(base, 1, superslab); /* its window is writable: cannot fail */
    return NULL;
  }
  map_set(base, 1, superslab);
  return superslab;
}
