/* huge.c - blocks in units of their own, which grow by mapping behind them or by moving their pages. */
#include <string.h>

#include "observe/counters.h"
#include "observe/report.h"
#include "policy/options.h"
#include "superslab/dense.h"
#include "superslab/descriptor.h"
#include "superslab/guard_pages.h"
#include "superslab/huge_advice.h"
#include "superslab/huge_cut.h"
#include "superslab/lock_parts.h"
#include "superslab/map.h"
#include "superslab/mappings.h"
#include "superslab/unit.h"

/* Under superslab_lock. */
static uint64_t huge_live HAK_START_DATA, huge_bytes HAK_START_DATA;

void huge_counts(uint64_t *live, uint64_t *bytes) {
  *live = huge_live;
  *bytes = huge_bytes;
}

static bool is_fenced(const struct superslab *superslab) {
  return HAK_HARDENED && superslab->fenced;
}

/* Units without those that are for a guard alone, or that a block may grow into. */
static uint64_t bytes_counted(const struct superslab *superslab) {
  return (uint64_t)huge_units_for(superslab->huge_usable, false) << UNIT_SHIFT;
}

/* The caller holds superslab_lock. A block is in the figures after its units are counted as mapped, and out of them before
 * the first one goes: who reads both finds no more bytes of huge blocks than are mapped. */
static void count_in(const struct superslab *superslab) {
  huge_live++;
  huge_bytes += bytes_counted(superslab);
}

static void count_out(const struct superslab *superslab) {
  huge_live--;
  huge_bytes -= bytes_counted(superslab);
}

/* Are new units for a block likely to be written altogether? One that grows was. */
static enum dense_answer expectation(struct superslab *superslab, struct unit_run run,
                                     size_t to_come) {
  size_t units = superslab->huge_units;
  if (to_come > 0 || units > DENSE_UNITS_MOST) return DENSE_YES;
  if (run.huge_pages || run.used == units || option_value(SS_HUGEPAGE) != HUGEPAGE_THP)
    return DENSE_NO;
  /* Pages that were in use before would tell nothing. */
  return dense_expected((enum dense_kind)units, run.used > 0 ? NULL : superslab);
}

/* Units for a block, behind one that will be guarded if it is fenced. The last `bare` are not for its bytes. */
static struct unit_run acquire_units(size_t units, size_t alignment, size_t to_come, bool fenced,
                                     size_t bare) {
  size_t ahead = fenced ? 1 : 0;
  struct unit_run run = to_come > 0 ? unit_reserve(ahead + units, ahead + to_come, bare)
                                    : unit_acquire_behind(ahead, units, alignment, bare);
  if (run.base != NULL) run.base += ahead << UNIT_SHIFT;
  return run;
}

/* Units that no page of is guarded any more, and if the block was fenced the one in front of them. */
static void release_units(char *base, size_t units, bool explicit_pages, unsigned node,
                          bool fenced) {
  size_t ahead = fenced ? 1 : 0;
  unit_release(base - (ahead << UNIT_SHIFT), ahead + units, explicit_pages, node);
}

/* The guard behind the block begins there; `bytes` is its new size. */
static void set_end(struct superslab *superslab, size_t bytes, size_t guard_at) {
  superslab->huge_usable = round_to_page(bytes);
  if (HAK_HARDENED) superslab->slabs[0].guarded = (uint32_t)(guard_at - superslab->huge_usable);
}

static size_t guard_place(size_t bytes, bool fenced, bool grows) {
  return fenced ? huge_guard_place(bytes, grows) : round_to_page(bytes);
}

static void fence(const struct superslab *superslab, struct unit_run run) {
  size_t guard_at = huge_guard_at(superslab);
  /* What the pool had in a unit for a guard alone would stay for nothing. */
  if (!run.from_os) os_decommit(run.base - UNIT_BYTES, UNIT_BYTES);
  if (!run.from_os && guard_at % UNIT_BYTES == 0) os_decommit(run.base + guard_at, UNIT_BYTES);
  units_fence(run.base, superslab->huge_units, guard_at);
}

/* A fenced block in units of the warm pool that have their guards. Their pages were in use before: nothing is learned of huge
 * pages. False: `run` is as it was. */
static bool enter_again(struct superslab *superslab, size_t usable, struct fenced_run *run) {
  char *base = run->base + UNIT_BYTES;
  size_t units = run->units - 1;
  if (run->guard_at < usable) {
    if (!units_open_tail(base, units, run->guard_at)) return false;
    run->guard_at = usable;
    units_guard_tail(base, units, usable);
  }
  superslab->base = base;
  superslab->huge_units = (uint32_t)units;
  set_end(superslab, usable, run->guard_at);
  superslab_begin_pages(superslab, false);
  superslab->fenced = true;
  superslab->node = run->node;
  return map_set(base, units, superslab);
}

static struct superslab *huge_again(size_t bytes) {
  if (huge_units_for(bytes, true) > UINT32_MAX / 2) return NULL;
  struct fenced_run run;
  size_t usable = round_to_page(bytes);
  if (!unit_acquire_fenced(usable, &run)) return NULL;
  struct superslab *superslab = descriptor_new_huge();
  bool entered = superslab != NULL && enter_again(superslab, usable, &run);
  if (!entered) unit_release_fenced(run);
  else huge_cut(superslab, false);
  lock_acquire(&superslab_lock);
  if (entered) {
    counters_supply(COUNTED_HUGE, SUPPLY_HIT, 1);
    count_in(superslab);
  } else if (superslab != NULL) {
    descriptor_free_huge(superslab);
  }
  lock_release(&superslab_lock);
  return entered ? superslab : NULL;
}

/* `to_come`: so many of the first units get their pages from elsewhere, those of the warm pool would be lost there. */
static struct superslab *huge_new(size_t bytes, size_t alignment, size_t to_come, bool fenced,
                                  bool *zeroed) {
  size_t guard_at = guard_place(bytes, fenced, to_come > 0);
  size_t units = huge_units_for(guard_at, fenced);
  if (units > UINT32_MAX / 2) return NULL;
  struct superslab *superslab = descriptor_new_huge();
  if (superslab == NULL) return NULL;
  struct unit_run run =
      acquire_units(units, alignment, to_come, fenced, units - huge_units_for(bytes, false));
  if (run.base != NULL) {
    superslab->base = run.base;
    superslab->huge_units = (uint32_t)units;
    set_end(superslab, bytes, guard_at);
    superslab_begin_pages(superslab, run.huge_pages);
    superslab->fenced = fenced;
    superslab->node = run.node;
    if (map_set(run.base, units, superslab)) {
      if (HAK_HARDENED && fenced) fence(superslab, run);
      enum dense_answer dense = expectation(superslab, run, to_come);
      size_t but = dense == DENSE_BUT_SAMPLE ? dense_sample_unit(units) : NO_UNIT;
      if (dense != DENSE_NO && !run.huge_pages)
        huge_advise(run.base, to_come + run.used, guard_at, but);
      if (to_come == 0) huge_cut(superslab, run.from_os);
      lock_acquire(&superslab_lock);
      counters_supply(COUNTED_HUGE, run.from_os ? SUPPLY_MISS : SUPPLY_HIT, 1);
      count_in(superslab);
      lock_release(&superslab_lock);
      *zeroed = run.zeroed;
      return superslab;
    }
    release_units(run.base, units, run.huge_pages, run.node, fenced);
  }
  lock_acquire(&superslab_lock);
  if (run.from_os) counters_supply(COUNTED_HUGE, SUPPLY_MISS, 1);
  descriptor_free_huge(superslab);
  lock_release(&superslab_lock);
  return NULL;
}

struct superslab *huge_acquire(size_t bytes, size_t alignment, bool *zeroed) {
  struct superslab *superslab = NULL;
  *zeroed = false;
  if (guard_pages_wanted() && alignment <= UNIT_BYTES) superslab = huge_again(bytes);
  if (superslab == NULL) superslab = huge_new(bytes, alignment, 0, guard_pages_wanted(), zeroed);
  superslab = huge_locked(superslab);
  unit_settle();
  return superslab;
}

struct superslab *huge_acquire_unfenced(size_t bytes, size_t alignment, bool *zeroed) {
  *zeroed = false;
  return huge_locked(huge_new(bytes, alignment, 0, false, zeroed));
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
  struct fenced_run run = {base - UNIT_BYTES, units + 1, huge_guard_at(superslab), superslab->node};
  bool explicit_pages = superslab->explicit_pages, fenced = is_fenced(superslab);
  dense_last_check(superslab);
  os_unlock_part(base, units << UNIT_SHIFT);
  struct huge_rest rest = huge_mend_for_pool(superslab);
  map_clear(base, units);
  lock_acquire(&superslab_lock);
  count_out(superslab);
  dense_forget(superslab);
  descriptor_free_huge(superslab);
  lock_release(&superslab_lock);
  huge_descriptors_settle();
  if (HAK_UNLIKELY(rest.units > 0)) huge_rest_release(rest);
  else if (fenced) unit_release_fenced(run);
  else release_units(base, units, explicit_pages, run.node, false);
  return true;
}

static void huge_set_size(struct superslab *superslab, size_t units, size_t bytes,
                          size_t guard_at) {
  lock_acquire(&superslab_lock);
  huge_bytes -= bytes_counted(superslab);
  dense_forget(superslab);
  superslab->huge_units = (uint32_t)units;
  set_end(superslab, bytes, guard_at);
  huge_bytes += bytes_counted(superslab);
  lock_release(&superslab_lock);
}

/* Moves the block's pages to the start of another run and gives its units up. A unit that does not move is
 * copied. False: nothing was moved. */
static bool move_pages(struct superslab *from, size_t units, char *to) {
  for (size_t unit = 0; unit < units; unit++) {
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
    os_unlock_part(from->base + at, UNIT_BYTES); /* first: the limit has room for one of both */
    (void)os_lock_part(to + at, UNIT_BYTES);
    unit_release(from->base + at, 1, false, from->node);
  }
  return true;
}

/* Before pages move or change hands: the kernel would move guards along. */
static bool open_tail(const struct superslab *superslab) {
  return !is_fenced(superslab) ||
         units_open_tail(superslab->base, superslab->huge_units, huge_guard_at(superslab));
}

static void guard_tail(const struct superslab *superslab) {
  if (is_fenced(superslab))
    units_guard_tail(superslab->base, superslab->huge_units, huge_guard_at(superslab));
}

/* Moves the block, which the caller has claimed, to a longer run elsewhere. */
static struct superslab *huge_move(struct superslab *from, size_t bytes) {
  bool zeroed;
  if (from->explicit_pages) return NULL; /* explicit huge pages do not move on every kernel */
  size_t old = from->huge_units, filled = huge_units_for(from->huge_usable, false);
  struct superslab *to = huge_new(bytes, UNIT_BYTES, filled, guard_pages_wanted(), &zeroed);
  if (to == NULL) return NULL;
  bool moves_guard = huge_guard_at(from) < filled << UNIT_SHIFT;
  if ((moves_guard && !open_tail(from)) || !huge_lock_moved(from, filled, to)) {
    guard_tail(from);
    huge_release(to, to->base);
    return NULL;
  }
  /* All out of the map (the first unit is by the claim) before the address range is free for others. */
  map_clear(from->base + UNIT_BYTES, old - 1);
  lock_acquire(&superslab_lock);
  count_out(from);
  lock_release(&superslab_lock);
  if (!move_pages(from, filled, to->base)) {
    guard_tail(from);
    /* The first unit stays claimed until huge_resize enters it: entered twice, a free in between would
     * be undone. */
    if (old > 1) map_set(from->base + UNIT_BYTES, old - 1, from); /* writable: cannot fail */
    huge_release(to, to->base);
    lock_acquire(&superslab_lock);
    count_in(from);
    lock_release(&superslab_lock);
    return NULL;
  }
  if (is_fenced(from)) { /* what held no pages */
    units_discard(from->base - UNIT_BYTES, 1);
    if (filled < old) units_discard(from->base + (filled << UNIT_SHIFT), old - filled);
  }
  to->node = from->node;
  lock_acquire(&superslab_lock);
  dense_forget(from);
  descriptor_free_huge(from);
  lock_release(&superslab_lock);
  return to;
}

/* Moves the block, which the caller has claimed, as the one mapping that it is: a limit of the address space may have no room for it
 * twice. False: it is as it was. */
static bool huge_move_whole(struct superslab *superslab, size_t bytes) {
  bool fenced = is_fenced(superslab);
  size_t guard_at = guard_place(bytes, fenced, true), ahead = fenced ? 1 : 0;
  size_t old = superslab->huge_units, units = huge_units_for(guard_at, fenced);
  if (superslab->explicit_pages) return false;
  if (fenced && !units_unfence(superslab->base, old, huge_guard_at(superslab))) return false;
  map_clear(superslab->base + UNIT_BYTES, old - 1); /* the first is out by the claim */
  lock_acquire(&superslab_lock);
  count_out(superslab);
  dense_forget(superslab);
  lock_release(&superslab_lock);
  char *from = superslab->base - (ahead << UNIT_SHIFT);
  size_t used = (ahead << UNIT_SHIFT) + superslab->huge_usable;
  char *to = unit_move_run(from, ahead + old, units - old, used);
  lock_acquire(&superslab_lock);
  if (to != NULL) {
    superslab->base = to + (ahead << UNIT_SHIFT);
    superslab->huge_units = (uint32_t)units;
    set_end(superslab, bytes, guard_at);
  }
  count_in(superslab);
  lock_release(&superslab_lock);
  if (to != NULL) huge_advise_moved(superslab, old);
  /* Its leaves are there: cannot fail. huge_resize enters the first. */
  map_set(superslab->base + UNIT_BYTES, superslab->huge_units - 1, superslab);
  if (fenced) units_fence(superslab->base, superslab->huge_units, huge_guard_at(superslab));
  return to != NULL;
}

/* Grows to `bytes` into the address range right behind the block, and by units for its guard: no page moves. */
static bool huge_extend(struct superslab *superslab, size_t units, size_t bytes) {
  size_t old = superslab->huge_units, more = units - old;
  char *end = superslab->base + (old << UNIT_SHIFT);
  size_t bare = units - huge_units_for(bytes, false);
  if (superslab->explicit_pages || !unit_extend(end, more, bare, superslab->node)) return false;
  if (!map_set(end, more, superslab)) {
    unit_release(end, more, false, superslab->node);
    return false;
  }
  return true;
}

static void give_rest(struct superslab *superslab, size_t units, size_t old) {
  char *rest = superslab->base + (units << UNIT_SHIFT);
  map_clear(rest, old - units);
  unit_release(rest, old - units, superslab->explicit_pages, superslab->node);
}

/* The block is claimed: nobody else frees or resizes it meanwhile. False: it has to move. One that shrinks never has to: where the
 * kernel refuses to take the guard behind it away it stays as it is. */
static bool resize_claimed(struct superslab *superslab, size_t bytes) {
  bool fenced = is_fenced(superslab);
  size_t old = superslab->huge_units, guarded_at = huge_guard_at(superslab);
  size_t guard_at = fenced ? huge_guard_place_for(superslab, bytes) : round_to_page(bytes);
  size_t units = huge_units_for(guard_at, fenced);
  if (units > old && !huge_extend(superslab, units, bytes)) {
    guard_at = round_to_page(bytes); /* no room ahead */
    units = huge_units_for(guard_at, fenced);
    if (units > old && (!fenced || !huge_extend(superslab, units, bytes))) return false;
  }
  bool same_tail = guard_at == guarded_at;
  if ((!same_tail && !open_tail(superslab)) || !huge_lock_resized(superslab, bytes)) {
    guard_tail(superslab);
    if (units > old) give_rest(superslab, old, units);
    return bytes < superslab->huge_usable;
  }
  huge_set_size(superslab, units, bytes, guard_at);
  if (units > old)
    huge_advise(superslab->base, huge_units_for(guarded_at, false), guard_at, NO_UNIT);
  if (!same_tail) guard_tail(superslab);
  if (units < old) give_rest(superslab, units, old);
  return true;
}

struct superslab *huge_resize(struct superslab *superslab, const char *base, size_t bytes) {
  if (huge_units_for(bytes, is_fenced(superslab)) > UINT32_MAX / 2) return NULL;
  if (!huge_claim(superslab, base)) report_bad_pointer("realloc", base, REPORT_DOUBLE_FREE);
  if (HAK_UNLIKELY(superslab->huge_cuts != 0) && !huge_mend(superslab)) {
    map_set(superslab->base, 1, superslab); /* its leaf is there: cannot fail */
    return NULL;
  }
  size_t units = huge_units_for(bytes, is_fenced(superslab));
  bool grows = units > superslab->huge_units;
  /* Under a limit it stays one mapping: what is mapped behind it, or moved unit by unit, could not be moved as a whole later. */
  bool done = grows && os_memory_is_limited() && huge_move_whole(superslab, bytes);
  if (!done) done = resize_claimed(superslab, bytes);
  if (!done) {
    struct superslab *moved = huge_move(superslab, bytes);
    if (moved != NULL) return moved;
  }
  /* What the pool has may be all that is missing, or lie right behind. For what can never be had it is not given up. */
  if (!done && unit_could_fit(units, UNIT_BYTES) && unit_trim() > 0)
    done = resize_claimed(superslab, bytes) || huge_move_whole(superslab, bytes);
  map_set(superslab->base, 1, superslab); /* its leaf is there: cannot fail */
  return done ? superslab : NULL;
}
