/* warm.c - see warm.h. */
#include "superslab/warm.h"

#include "policy/options.h"
#include "superslab/guard_pages.h"

/* 16 MiB: what small programs free and allocate again. With 64 MiB from the start, programs that free one
 * large buffer kept it: a tenth more memory at the peak. */
#define START_UNITS ((size_t)8)

/* Asked for again after this long, units were rightly given back. */
#define REGRET_MS 1000

/* --- in and out ------------------------------------------------------------------------------------ */

struct warm_run warm_remove(struct warm_pool *pool, size_t at) {
  struct warm_run run = pool->runs[at];
  pool->count--;
  for (size_t i = at; i < pool->count; i++) {
    pool->runs[i] = pool->runs[i + 1];
    __asm__ volatile(
        ""); /* else a call of libc's memmove, under the lock of the pool (docs/decisions/0039) */
  }
  pool->units -= run.units;
  pool->bare -= warm_bare(&run);
  return run;
}

static bool joins(const struct warm_run *a, const struct warm_run *b) {
  return a->base + (a->units << UNIT_SHIFT) == b->base && a->zeroed == b->zeroed &&
         a->huge_pages == b->huge_pages && a->lazily_freed == b->lazily_freed &&
         a->node == b->node && a->fenced == 0 && b->fenced == 0;
}

/* Two neighbours as one run, of the age of the longer. With the age of the younger one, a unit that comes and
 * goes would keep all units beside it for ever; with that of the older one it would leave with them, though it is in
 * use. So what stays beyond its time is never more than what came in just now. */
static struct warm_run joined(struct warm_run low, struct warm_run high) {
  if (high.units > low.units) low.since_ms = high.since_ms;
  low.units += high.units;
  return low;
}

void warm_insert(struct warm_pool *pool, struct warm_run run) {
  pool->units += run.units;
  pool->bare += warm_bare(&run);
  for (size_t i = 0; i < pool->count;) {
    struct warm_run other = pool->runs[i];
    bool below = joins(&other, &run);
    if (!below && !joins(&run, &other)) {
      i++;
      continue;
    }
    warm_remove(pool, i);
    pool->units += other.units;
    run = below ? joined(other, run) : joined(run, other);
  }
  pool->runs[pool->count++] = run;
}

/* `units` of the run at an index, from its end or its front. */
static struct warm_run cut(struct warm_pool *pool, size_t at, size_t units, bool from_end) {
  struct warm_run *left = &pool->runs[at], taken = *left;
  if (left->units == units) return warm_remove(pool, at);
  left->units -= units;
  pool->units -= units;
  if (from_end) taken.base += left->units << UNIT_SHIFT;
  else left->base += units << UNIT_SHIFT;
  taken.units = units;
  return taken;
}

static bool is_of(const struct warm_run *run, unsigned node) {
  return run->node == node || node == NODE_ANY;
}

bool warm_take(struct warm_pool *pool, size_t units, size_t alignment, unsigned node,
               struct warm_run *out) {
  size_t best = WARM_RUNS;
  for (size_t i = 0; i < pool->count; i++) {
    const struct warm_run *run = &pool->runs[i];
    if (run->units < units || run->fenced != 0 || !is_of(run, node)) continue;
    if (((uintptr_t)run->base & (alignment - 1)) != 0) continue;
    /* Of equal ones the youngest: its pages are the likeliest to be in caches. */
    if (best == WARM_RUNS || run->units <= pool->runs[best].units) best = i;
  }
  if (best == WARM_RUNS) return false;
  /* From the end where any place will do: a pointer to the start of a freed huge block then stays no
   * block's start for as long as can be, and a second free of it is seen. */
  *out = cut(pool, best, units, alignment == UNIT_BYTES);
  return true;
}

bool warm_take_at(struct warm_pool *pool, const char *base, size_t units, unsigned node) {
  for (size_t i = 0; i < pool->count; i++) {
    const struct warm_run *run = &pool->runs[i];
    if (run->base != base) continue;
    bool fits = run->units >= units && !run->huge_pages && run->fenced == 0 && is_of(run, node);
    if (fits) (void)cut(pool, i, units, false);
    return fits;
  }
  return false;
}

size_t warm_take_pieces(struct warm_pool *pool, size_t units, unsigned node,
                        struct warm_run *pieces, size_t most) {
  size_t taken = 0;
  while (units > 0 && taken < most) {
    size_t longest = WARM_RUNS;
    for (size_t i = 0; i < pool->count; i++)
      if (!pool->runs[i].huge_pages && pool->runs[i].fenced == 0 && is_of(&pool->runs[i], node) &&
          (longest == WARM_RUNS || pool->runs[i].units > pool->runs[longest].units))
        longest = i;
    if (longest == WARM_RUNS) break;
    size_t here = pool->runs[longest].units;
    pieces[taken] = cut(pool, longest, here < units ? here : units, true);
    units -= pieces[taken++].units;
  }
  return taken;
}

/* --- with guards (guard_pages.h) -------------------------------------------------------------------- */

#if HAK_HARDENED

/* With as many units for a block, and with room for the guard behind it. */
static bool is_as_long(const struct warm_run *run, size_t usable) {
  size_t units = (usable + UNIT_BYTES - 1) >> UNIT_SHIFT, all = (run->units - 1) << UNIT_SHIFT;
  return run->units - warm_bare(run) == units &&
         (usable <= run->fenced || usable + os_page_size() <= all);
}

bool warm_take_fenced(struct warm_pool *pool, size_t usable, unsigned node, struct warm_run *out) {
  size_t best = WARM_RUNS, same = WARM_RUNS;
  for (size_t i = 0; i < pool->count; i++) {
    const struct warm_run *run = &pool->runs[i];
    if (run->fenced == 0 || !is_of(run, node)) continue;
    if (huge_guard_serves(run->fenced, usable) &&
        (best == WARM_RUNS || run->fenced <= pool->runs[best].fenced))
      best = i;
    if (is_as_long(run, usable)) same = i;
  }
  if (best == WARM_RUNS) best = same;
  if (best == WARM_RUNS) return false;
  *out = warm_remove(pool, best);
  return true;
}

bool warm_take_any_fenced(struct warm_pool *pool, size_t units, unsigned node,
                          struct warm_run *out) {
  size_t longest = WARM_RUNS;
  for (size_t i = 0; i < pool->count; i++) {
    const struct warm_run *run = &pool->runs[i];
    if (run->fenced == 0 || run->units - warm_bare(run) < units || !is_of(run, node)) continue;
    if (longest == WARM_RUNS || run->units > pool->runs[longest].units) longest = i;
  }
  if (longest == WARM_RUNS) return false;
  *out = warm_remove(pool, longest);
  return true;
}

#endif

/* --- how much to keep --------------------------------------------------------------------------------- */

/* A program that gives up unit after unit and asks for none is done with a spike. Once four times the first size is gone nothing more is
 * kept: where no call follows, 16 MiB of it would stay for ever. The next unit that the OS is asked for ends it. */
enum { GONE_FOR_ONE = 4 };

static size_t first_units(const struct warm_pool *pool) {
  size_t less = pool->gone_units / GONE_FOR_ONE;
  return less < START_UNITS ? START_UNITS - less : 0;
}

size_t warm_budget(const struct warm_pool *pool) {
  bool for_ever = option_value(WARM_POOL_DECAY_MS) == 0;
  if (option_value(SS_MEM_LEAN) && for_ever) return 0;
  size_t most = (size_t)option_value(WARM_POOL_MB) * MIB >> UNIT_SHIFT;
  size_t budget = first_units(pool) + pool->grown_units;
  return for_ever || budget > most ? most : budget;
}

void warm_no_room_for(struct warm_pool *pool, size_t units) {
  pool->evicted_units += units;
  pool->gone_units += units;
  pool->evicted_ms = os_clock_ms();
}

void warm_missed(struct warm_pool *pool, size_t units, size_t in_use) {
  if (units > 0) pool->gone_units = 0;
  if (pool->evicted_units == 0 || units == 0) return;
  if (os_clock_ms() - pool->evicted_ms > REGRET_MS) {
    pool->evicted_units = 0;
    return;
  }
  if (units > pool->evicted_units) units = pool->evicted_units;
  pool->evicted_units -= units;
  pool->grown_units += units;
  /* Whatever the pattern, no more than half of what the program itself uses. */
  if (pool->grown_units > in_use / 2) pool->grown_units = in_use / 2;
}

/* The first run that is too old; pool->count: there is none. */
static size_t find_old(const struct warm_pool *pool) {
  uint64_t decay = (uint64_t)option_value(WARM_POOL_DECAY_MS);
  if (pool->count == 0 || decay == 0 || option_value(SS_MEM_LEAN_DECOMMIT) != DECOMMIT_DONTNEED)
    return pool->count;
  uint64_t now = os_clock_ms();
  size_t at = 0;
  while (at < pool->count && now - pool->runs[at].since_ms < decay) at++;
  return at;
}

bool warm_is_over(const struct warm_pool *pool, bool to_nothing) {
  return pool->units - pool->bare > (to_nothing ? 0 : warm_budget(pool)) ||
         find_old(pool) < pool->count;
}

bool warm_take_victim(struct warm_pool *pool, size_t incoming, bool to_nothing,
                      struct warm_run *victim) {
  if (pool->count == 0) return false;
  size_t budget = to_nothing ? 0 : warm_budget(pool);
  bool full = incoming != 0 && warm_is_full(pool);
  bool over = pool->units - pool->bare + incoming > budget || full;
  size_t at = find_old(pool);
  bool old = at < pool->count;
  if (!over && !old) return false;
  *victim = warm_remove(pool, old ? at : 0);
  size_t gone = victim->units - warm_bare(victim);
  if (!old) warm_no_room_for(pool, gone);
  else pool->grown_units -= gone < pool->grown_units ? gone : pool->grown_units;
  return true;
}
