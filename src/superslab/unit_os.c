/* unit_os.c - see unit_os.h. */
#include "superslab/unit_os.h"

#include "policy/options.h"
#include "superslab/aligned.h"
#include "superslab/guard_pages.h"
#include "superslab/lock_parts.h"
#include "superslab/mappings.h"
#include "superslab/random_place.h"

struct lock unit_lock HAK_START_DATA;
struct warm_pool unit_pool HAK_START_DATA;
struct stuck_run *unit_stuck HAK_START_DATA;

struct unit_counts unit_counts HAK_START_DATA;
_Atomic size_t unit_taken_bytes HAK_START_DATA;
atomic_bool unit_limited;
static _Atomic size_t warm_units
    HAK_START_DATA; /* unit_pool.units, for unit_warm_bytes; written under unit_lock */

void unit_pool_lock(void) { lock_acquire(&unit_lock); }

/* Whoever had the lock may have changed the pool. */
void unit_pool_unlock(void) {
  atomic_store_explicit(&warm_units, unit_pool.units, memory_order_relaxed);
  lock_release(&unit_lock);
}

void unit_count(_Atomic uint64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void unit_account(ptrdiff_t units) { unit_count(&unit_counts.mapped, (uint64_t)units); }

size_t unit_mapped(void) {
  return (size_t)atomic_load_explicit(&unit_counts.mapped, memory_order_relaxed);
}

size_t unit_mapped_bytes(void) { return unit_mapped() << UNIT_SHIFT; }

size_t unit_held(void) {
  size_t mapped = unit_mapped(), kept = mappings_kept();
  return mapped > kept ? mapped - kept : 0;
}

#define REFUSED_FOR_MS 1000
static _Atomic uint64_t refused_ms HAK_START_DATA; /* when units were refused last; 0: never */

bool unit_was_refused(void) {
  /* relaxed: a hint */
  uint64_t at = atomic_load_explicit(&refused_ms, memory_order_relaxed);
  return HAK_UNLIKELY(at != 0) && os_clock_ms() - at < REFUSED_FOR_MS;
}

/* A unit in a state of its own is a mapping of its own, and makes one more of its neighbour. The kernel allows 65530,
 * and where they are used up no memory is to be had. */
#define CUT_BELOW ((size_t)16384)

bool unit_may_cut_mappings(void) { return unit_mapped() <= CUT_BELOW; }

/* Refused by the kernel, they are taken for what was asked for: too many mappings rather than too few. */
bool unit_advise_huge(char *base, size_t units) {
  return mappings_change(base, units, MAPPING_HUGE) && os_advise_huge(base, units << UNIT_SHIFT);
}

bool unit_advise_small(char *base, size_t units) {
  return mappings_change(base, units, MAPPING_SMALL) && os_advise_small(base, units << UNIT_SHIFT);
}

/* A short list: what is in it the kernel has refused to unmap, for which there is a reason only at the limit of mappings. */
bool unit_stuck_take(size_t units, size_t alignment, unsigned node, struct warm_run *out) {
  for (struct stuck_run **link = &unit_stuck; *link != NULL; link = &(*link)->next) {
    struct stuck_run *run = *link;
    if (run->units != units || ((uintptr_t)run & (alignment - 1)) != 0) continue;
    if (run->node != node && node != NODE_ANY) continue;
    *link = run->next;
    *out = (struct warm_run){
        .base = (char *)run, .units = units, .huge_pages = run->huge_pages, .node = run->node};
    return true;
  }
  return false;
}

bool unit_above_target(void) {
  size_t target = (size_t)option_value(SS_MEM_LEAN_TARGET_MB) * MIB >> UNIT_SHIFT;
  return target != 0 && unit_held() > target;
}

/* --- from and to the OS, without the lock -------------------------------------------------------- */

/* Out of the count of mappings already. */
static bool unmap(char *base, size_t units) {
  bool done = os_unmap(base, units << UNIT_SHIFT);
  if (done) unit_account(-(ptrdiff_t)units);
  else mappings_set(base, units, MAPPING_PLAIN);
  return done;
}

/* Where unmapping would make too many mappings: gives the pages back and keeps the units. Explicit huge pages, and locked memory, do not
 * go so. */
static bool keep(struct warm_run *run) {
  if (run->huge_pages) return false;
  if (run->fenced != 0 && !units_unfence(run->base + UNIT_BYTES, run->units - 1, run->fenced))
    return false;
  run->fenced = 0;
  return os_decommit(run->base, run->units << UNIT_SHIFT) && mappings_keep(run->base, run->units);
}

void unit_give_back(struct warm_run run) {
  char *base = run.base;
  size_t units = run.units;
  if (!mappings_leave(&base, &units)) {
    if (keep(&run)) return;
    mappings_set(base, units, MAPPING_NONE);
  }
  if (unmap(base, units)) return;
  if (run.fenced != 0 && !units_unfence(run.base + UNIT_BYTES, run.units - 1, run.fenced)) return;
  run.base = base;
  run.units = units;
  run.fenced = 0;
  run.zeroed = os_decommit(base, units << UNIT_SHIFT) && option_guard() == GUARD_OFF;
  run.since_ms = os_clock_ms();
  unit_pool_lock();
  if (!warm_is_full(&unit_pool)) {
    warm_insert(&unit_pool, run);
  } else {
    struct stuck_run *self = (struct stuck_run *)(void *)run.base;
    self->units = run.units;
    self->huge_pages = run.huge_pages;
    self->node = run.node;
    self->next = unit_stuck;
    unit_stuck = self;
  }
  unit_pool_unlock();
}

void unit_free_lazily(void) {
  if (option_value(SS_MEM_LEAN_DECOMMIT) != DECOMMIT_FREE) return;
  uint64_t decay = (uint64_t)option_value(WARM_POOL_DECAY_MS);
  if (decay == 0) return;
  for (;;) {
    struct warm_run run;
    bool found = false;
    unit_pool_lock();
    uint64_t now = os_clock_ms(); /* under the lock: no run is younger */
    for (size_t i = 0; i < unit_pool.count && !found; i++)
      if (!unit_pool.runs[i].lazily_freed && now - unit_pool.runs[i].since_ms >= decay) {
        run = warm_remove(&unit_pool, i);
        found = true;
      }
    unit_pool_unlock();
    if (!found) return;
    if (run.huge_pages) { /* the kernel does not free them lazily */
      unit_give_back(run);
      continue;
    }
    os_decommit_lazily(run.base, run.units << UNIT_SHIFT);
    run.lazily_freed = true;
    run.zeroed = false;
    run.since_ms = now;
    unit_pool_lock();
    if (!warm_is_full(&unit_pool)) {
      warm_insert(&unit_pool, run);
      found = false;
    }
    unit_pool_unlock();
    if (found) unit_give_back(run);
  }
}

size_t unit_unmap_kept(int stretches, size_t most_mappings) {
  char *cursor = NULL, *base;
  size_t units, bytes = 0;
  bool done = true;
  for (int i = 0; i < stretches && done; i++) {
    if (!mappings_take_to_unmap(&cursor, &base, &units, most_mappings)) break;
    done = unmap(base, units);
    if (done) bytes += units << UNIT_SHIFT;
    else mappings_keep(base, units);
  }
  return bytes;
}

void unit_give_back_all(const struct warm_run *runs, size_t count_runs) {
  for (size_t i = 0; i < count_runs; i++) unit_give_back(runs[i]);
}

static char *take_kept(size_t units) {
  bool huge;
  char *base = mappings_take(units, &huge);
  if (base != NULL && huge)
    unit_advise_small(base, units); /* else 2 MiB may come at the first touch */
  return base;
}

struct unit_run unit_map_run(size_t units, size_t alignment, size_t ahead, bool ordinary) {
  struct unit_run run = {.zeroed = true, .node = (uint8_t)node_now()};
  size_t bytes = units << UNIT_SHIFT;
  if (!ordinary && option_value(SS_HUGEPAGE) == HUGEPAGE_EXPLICIT && alignment == UNIT_BYTES) {
    run.base = os_map_huge_pages(bytes, UNIT_BYTES);
    run.huge_pages = run.base != NULL;
    unit_count(run.huge_pages ? &unit_counts.huge_alloc : &unit_counts.huge_fail, 1);
    if (!run.huge_pages) unit_count(&unit_counts.fallback_mmap, 1);
  }
  if (run.base == NULL && alignment == UNIT_BYTES && (run.base = take_kept(units)) != NULL) {
    /* Who had it may have written to it since. */
    run.zeroed = option_guard() == GUARD_OFF || os_decommit_again(run.base, bytes);
    return run;
  }
  if (run.base == NULL) run.base = random_place_map(bytes, alignment, ahead << UNIT_SHIFT);
  if (run.base == NULL) {
    bool at_once;
    run.base = aligned_map(bytes, alignment, ahead << UNIT_SHIFT, &at_once);
    if (!at_once) unit_count(&unit_counts.fallback_mmap, 1);
  }
  if (run.base == NULL) {
    atomic_store_explicit(&refused_ms, os_clock_ms(), memory_order_relaxed); /* a hint */
    return run;
  }
  unlock_unused();
  map_prepare(run.base, units); /* refused: entering them will be, too */
  mappings_set(run.base, units, run.huge_pages ? MAPPING_HUGE : MAPPING_PLAIN);
  unit_count(&unit_counts.mapped, units);
  return run;
}

size_t unit_warm_bytes(void) {
  return atomic_load_explicit(&warm_units, memory_order_relaxed) << UNIT_SHIFT;
}

size_t unit_warm_most(void) {
  unit_pool_lock();
  size_t units = warm_budget(&unit_pool);
  unit_pool_unlock();
  return units << UNIT_SHIFT;
}

void unit_forget(void) {
  unit_pool = (struct warm_pool){0};
  unit_stuck = NULL;
  atomic_store_explicit(&warm_units, 0, memory_order_relaxed);
}
