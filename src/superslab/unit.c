/* unit.c - units of 2 MiB: from the warm pool, which is guarded here, or from the OS.
 *
 * System calls are made with the lock released.
 */
#include "superslab/unit.h"

#include "policy/options.h"
#include "superslab/descriptor.h"
#include "superslab/guard_pages.h"
#include "superslab/map.h"
#include "superslab/mappings.h"
#include "superslab/unit_os.h"

enum { SETTLED_AT_ONCE = 8, TRIM_TRIES = 3, KEPT_AT_ONCE = 64 };

/* Something had to go from the pool when this thread took a unit. */
static _Thread_local bool to_settle __attribute__((tls_model("initial-exec")));

static bool take_warm(size_t units, size_t alignment, unsigned node, struct unit_run *out) {
  struct warm_run warm = {0};
  unit_pool_lock();
  bool found = warm_take(&unit_pool, units, alignment, node, &warm);
  if (!found) found = unit_stuck != NULL && unit_stuck_take(units, alignment, node, &warm);
  bool is_over = warm_is_over(&unit_pool, unit_above_target());
  unit_pool_unlock();
  if (is_over) to_settle = true;
  if (found)
    *out = (struct unit_run){warm.base, warm.zeroed, warm.huge_pages, units, false, warm.node};
  return found;
}

/* Gives one run back of those that have to go. One at a time: a run that is out of the pool and still mapped is lost to the child of a fork
 * that comes then, and the fork waits just while the kernel unmaps the first of several. */
static bool give_back_victim(void) {
  struct warm_run victim;
  unit_pool_lock();
  bool found = warm_take_victim(&unit_pool, 0, unit_above_target(), &victim);
  unit_pool_unlock();
  if (found) unit_give_back(victim);
  return found;
}

/* Bounded: where the kernel refuses to unmap, the run comes back into the pool. */
static void give_back_victims(int most) {
  for (int i = 0; i < most && give_back_victim(); i++) continue;
}

void unit_settle(void) {
  if (HAK_LIKELY(!to_settle)) return;
  to_settle = false;
  give_back_victims(SETTLED_AT_ONCE);
}

bool unit_could_fit(size_t units, size_t alignment) {
  size_t most = os_longest_mapping(), ours = unit_mapped();
  if (alignment > most || units > most >> UNIT_SHIFT || os_refuses_all()) return false;
  if (alignment > UNIT_BYTES) units += alignment >> UNIT_SHIFT;
  if (units > most >> UNIT_SHIFT) return false;
  return units <= ours || os_would_map((units - ours) << UNIT_SHIFT);
}

static struct unit_run map_missed(size_t units, size_t alignment, size_t ahead, size_t bare) {
  struct unit_run run = unit_map_filled(units, alignment, ahead, bare);
  if (run.base == NULL) return run;
  unit_pool_lock();
  warm_missed(&unit_pool, units - ahead - bare - run.used, unit_held() - unit_pool.units);
  unit_pool_unlock();
  return run;
}

static size_t trim(size_t most_mappings) {
  size_t bytes = 0;
  /* One at a time, and at most as many as fill the pool once: as in give_back_victims. */
  for (int round = 0; round < WARM_RUNS; round++) {
    struct warm_run run = {0};
    unit_pool_lock();
    if (unit_pool.count > 0) run = warm_remove(&unit_pool, 0);
    unit_pool_unlock();
    if (run.base == NULL) break;
    bytes += run.units << UNIT_SHIFT;
    unit_give_back(run);
  }
  return bytes + unit_unmap_kept(INT32_MAX, most_mappings);
}

struct unit_run unit_acquire_behind(size_t ahead, size_t units, size_t alignment, size_t bare) {
  struct unit_run run = {0};
  units += ahead;
  if (alignment < UNIT_BYTES) alignment = UNIT_BYTES;
  if (units == 0 || units >= MAP_LEAVES * LEAF_UNITS) return run;
  /* Of the pool's runs it is known whether they start at such a place, not what lies ahead of it. */
  bool asks_pool = ahead == 0 || alignment == UNIT_BYTES;
  unsigned node = node_now();
  bool from_os = !asks_pool || !take_warm(units, alignment, node, &run);
  if (from_os && ahead == 0 && alignment == UNIT_BYTES && unit_open_fenced(1, units))
    from_os = !take_warm(units, alignment, node, &run);
  if (from_os) {
    run = map_missed(units, alignment, ahead, bare);
    if (run.base == NULL && asks_pool && node_are_many())
      from_os = !take_warm(units, alignment, NODE_ANY, &run);
    /* Refused: the pool may hold address space in pieces that are too small. What goes from there another thread
     * may get first. For one unit any piece would have done: the pool is empty, and nothing is given back here. */
    bool possible = run.base != NULL || unit_could_fit(units, alignment);
    for (int i = 0; i < TRIM_TRIES && run.base == NULL && possible; i++) {
      if (trim(MAPPINGS_MOST_IN_NEED) == 0) break;
      run = unit_map_run(units, alignment, ahead, ahead > 0);
    }
  }
  if (run.base != NULL) unit_count(&unit_counts.acquired, 1);
  if (!from_os) run.used -= ahead;
  run.from_os = from_os;
  return run;
}

struct unit_run unit_acquire(size_t units, size_t alignment) {
  return unit_acquire_behind(0, units, alignment, 0);
}

static void release(struct warm_run run) {
  size_t units = run.units - warm_bare(&run);
  unit_count(&unit_counts.released, 1);
  if (option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_OFF)
    unit_count(&unit_counts.decommit_disabled, 1);
  run.since_ms = os_clock_ms();
  bool keep = true, inserted = false;
  /* A round for each that has to go before; bounded as in give_back_victims. */
  for (int round = 0; round < WARM_RUNS && keep && !inserted; round++) {
    struct warm_run victim;
    unit_pool_lock();
    keep = units <= warm_budget(&unit_pool) && !unit_above_target();
    bool goes = keep && warm_take_victim(&unit_pool, units, false, &victim);
    if (!keep) warm_no_room_for(&unit_pool, units);
    inserted = keep && !goes && !warm_is_full(&unit_pool);
    if (inserted) warm_insert(&unit_pool, run);
    unit_pool_unlock();
    if (goes) unit_give_back(victim);
  }
  if (!inserted) unit_give_back(run);
  unit_free_lazily();
}

void unit_release(char *base, size_t units, bool huge_pages, unsigned node) {
  release((struct warm_run){
      .base = base, .units = units, .huge_pages = huge_pages, .node = (uint8_t)node});
}

#if HAK_HARDENED

bool unit_acquire_fenced(size_t usable, struct fenced_run *out) {
  struct warm_run run;
  unit_pool_lock();
  bool found = warm_take_fenced(&unit_pool, usable, node_now(), &run);
  bool is_over = warm_is_over(&unit_pool, unit_above_target());
  unit_pool_unlock();
  if (is_over) to_settle = true;
  if (!found) return false;
  unit_count(&unit_counts.acquired, 1);
  *out = (struct fenced_run){run.base, run.units, run.fenced, run.node};
  return true;
}

void unit_release_fenced(struct fenced_run run) {
  release((struct warm_run){
      .base = run.base, .units = run.units, .fenced = run.guard_at, .node = run.node});
}

#endif

void unit_give_up(char *base, size_t units, bool huge_pages) {
  unit_count(&unit_counts.released, 1);
  unit_give_back((struct warm_run){.base = base, .units = units, .huge_pages = huge_pages});
}

size_t unit_trim(void) {
  size_t bytes = trim(MAPPINGS_MOST);
  descriptors_give_states();
  return bytes;
}

size_t unit_prewarm(size_t units) {
  size_t room = warm_budget(&unit_pool), wanted = units < room ? units : room;
  if (wanted == 0) return 0;
  struct unit_run run = unit_map_run(wanted, UNIT_BYTES, 0, false);
  if (run.base == NULL) return 0;
  if (!run.huge_pages && option_value(SS_HUGEPAGE) == HUGEPAGE_THP)
    unit_advise_huge(run.base, wanted);
  os_populate(run.base, wanted << UNIT_SHIFT); /* refused: the pages come by touch */
  unit_pool_lock();
  warm_insert(&unit_pool, (struct warm_run){.base = run.base,
                                            .units = wanted,
                                            .since_ms = os_clock_ms(),
                                            .zeroed = true,
                                            .huge_pages = run.huge_pages,
                                            .node = run.node});
  unit_pool_unlock();
  return wanted;
}

size_t unit_age(void) {
  size_t unexpired = 0;
  if (option_value(WARM_POOL_DECAY_MS) == 0) return 0;
  unit_free_lazily();
  give_back_victims(WARM_RUNS);
  unit_pool_lock();
  for (size_t i = 0; i < unit_pool.count; i++)
    if (!unit_pool.runs[i].lazily_freed) unexpired += unit_pool.runs[i].units << UNIT_SHIFT;
  unit_pool_unlock();
  descriptors_give_states();
  if (mappings_have_room()) unit_unmap_kept(KEPT_AT_ONCE, MAPPINGS_MOST);
  return option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_OFF ? 0 : unexpired;
}
