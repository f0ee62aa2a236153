/* unit.c - units of 2 MiB: from the warm pool, which is guarded here, or from the OS.
 *
 * System calls are made with the lock released.
 */
#include <string.h>

#include "policy/options.h"
#include "superslab/aligned.h"
#include "superslab/guard_pages.h"
#include "superslab/places.h"
#include "superslab/random_place.h"
#include "superslab/superslab.h"
#include "superslab/warm.h"

enum { VICTIMS = 8, TRIM_TRIES = 3, KEPT_AT_ONCE = 64 };

struct lock unit_lock HAK_START_DATA;
struct warm_pool unit_pool HAK_START_DATA;
struct stuck_run *unit_stuck HAK_START_DATA;

struct unit_counts unit_counts HAK_START_DATA;
/* Something had to go from the pool when this thread took a unit. */
static _Thread_local bool to_settle __attribute__((tls_model("initial-exec")));
static _Atomic size_t warm_units
    HAK_START_DATA; /* unit_pool.units, for unit_warm_bytes; written under unit_lock */

static void pool_lock(void) { lock_acquire(&unit_lock); }

/* Whoever had the lock may have changed the pool. */
static void pool_unlock(void) {
  atomic_store_explicit(&warm_units, unit_pool.units, memory_order_relaxed);
  lock_release(&unit_lock);
}

static void count(_Atomic uint64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void unit_account(ptrdiff_t units) { count(&unit_counts.mapped, (uint64_t)units); }

static size_t mapped_now(void) {
  return (size_t)atomic_load_explicit(&unit_counts.mapped, memory_order_relaxed);
}

size_t unit_mapped_bytes(void) { return mapped_now() << UNIT_SHIFT; }

/* Without those that are kept only because they cannot be unmapped. */
static size_t held_now(void) {
  size_t mapped = mapped_now(), kept = places_kept();
  return mapped > kept ? mapped - kept : 0;
}

/* A unit in a state of its own is a mapping of its own, and makes one more of its neighbour. The kernel allows 65530,
 * and where they are used up no memory is to be had. */
#define CUT_BELOW ((size_t)16384)

bool unit_may_cut_mappings(void) { return mapped_now() <= CUT_BELOW; }

/* Refused by the kernel, they are taken for what was asked for: too many mappings rather than too few. */
bool unit_advise_huge(char *base, size_t units) {
  return places_change(base, units, PLACE_HUGE) && os_advise_huge(base, units << UNIT_SHIFT);
}

bool unit_advise_small(char *base, size_t units) {
  return places_change(base, units, PLACE_SMALL) && os_advise_small(base, units << UNIT_SHIFT);
}

/* A short list: what is in it the kernel has refused to unmap, for which there is a reason only at the limit of mappings. */
static bool stuck_take(size_t units, size_t alignment, unsigned node, struct warm_run *out) {
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

static bool above_target(void) {
  size_t target = (size_t)option_value(SS_MEM_LEAN_TARGET_MB) * MIB >> UNIT_SHIFT;
  return target != 0 && held_now() > target;
}

/* --- from and to the OS, without the lock -------------------------------------------------------- */

/* Out of the count of mappings already. */
static bool unmap(char *base, size_t units) {
  bool done = os_unmap(base, units << UNIT_SHIFT);
  if (done) unit_account(-(ptrdiff_t)units);
  else places_set(base, units, PLACE_PLAIN);
  return done;
}

/* Where unmapping would make too many mappings: gives the pages back and keeps the units. Explicit huge pages, and locked memory, do not
 * go so. */
static bool keep(struct warm_run *run) {
  if (run->huge_pages) return false;
  if (run->fenced != 0 && !units_unfence(run->base + UNIT_BYTES, run->units - 1, run->fenced))
    return false;
  run->fenced = 0;
  return os_decommit(run->base, run->units << UNIT_SHIFT) && places_keep(run->base, run->units);
}

static void give_back(struct warm_run run) {
  size_t bytes = run.units << UNIT_SHIFT;
  if (!places_change(run.base, run.units, PLACE_NONE)) {
    if (keep(&run)) return;
    places_set(run.base, run.units, PLACE_NONE);
  }
  if (unmap(run.base, run.units)) return;
  if (run.fenced != 0 && !units_unfence(run.base + UNIT_BYTES, run.units - 1, run.fenced)) return;
  run.fenced = 0;
  run.zeroed = os_decommit(run.base, bytes);
  run.since_ms = os_clock_ms();
  pool_lock();
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
  pool_unlock();
}

/* HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE: runs past their time stay, marked for the kernel to take. */
static void free_lazily(void) {
  if (option_value(SS_MEM_LEAN_DECOMMIT) != DECOMMIT_FREE) return;
  uint64_t decay = (uint64_t)option_value(WARM_POOL_DECAY_MS);
  if (decay == 0) return;
  for (;;) {
    struct warm_run run;
    bool found = false;
    pool_lock();
    uint64_t now = os_clock_ms(); /* under the lock: no run is younger */
    for (size_t i = 0; i < unit_pool.count && !found; i++)
      if (!unit_pool.runs[i].lazily_freed && now - unit_pool.runs[i].since_ms >= decay) {
        run = warm_remove(&unit_pool, i);
        found = true;
      }
    pool_unlock();
    if (!found) return;
    if (run.huge_pages) { /* the kernel does not free them lazily */
      give_back(run);
      continue;
    }
    os_decommit_lazily(run.base, run.units << UNIT_SHIFT);
    run.lazily_freed = true;
    run.zeroed = false;
    run.since_ms = now;
    pool_lock();
    if (!warm_is_full(&unit_pool)) {
      warm_insert(&unit_pool, run);
      found = false;
    }
    pool_unlock();
    if (found) give_back(run);
  }
}

/* Of the kept units those that can be unmapped by now, in so many stretches at most, until the kernel refuses; bytes. */
static size_t unmap_kept(int stretches, size_t most_mappings) {
  char *cursor = NULL, *base;
  size_t units, bytes = 0;
  bool done = true;
  for (int i = 0; i < stretches && done; i++) {
    if (!places_take_to_unmap(&cursor, &base, &units, most_mappings)) break;
    done = unmap(base, units);
    if (done) bytes += units << UNIT_SHIFT;
    else places_keep(base, units);
  }
  return bytes;
}

static void give_back_all(const struct warm_run *runs, size_t count_runs) {
  for (size_t i = 0; i < count_runs; i++) give_back(runs[i]);
}

static char *take_kept(size_t units) {
  bool huge;
  char *base = places_take(units, &huge);
  if (base != NULL && huge)
    unit_advise_small(base, units); /* else 2 MiB may come at the first touch */
  return base;
}

/* `ahead` units of the run come before the place that is aligned. `ordinary`: no explicit huge pages. */
static struct unit_run map_run(size_t units, size_t alignment, size_t ahead, bool ordinary) {
  struct unit_run run = {.zeroed = true, .node = (uint8_t)node_now()};
  size_t bytes = units << UNIT_SHIFT;
  if (!ordinary && option_value(SS_HUGEPAGE) == HUGEPAGE_EXPLICIT && alignment == UNIT_BYTES) {
    run.base = os_map_huge_pages(bytes, UNIT_BYTES);
    run.huge_pages = run.base != NULL;
    count(run.huge_pages ? &unit_counts.huge_alloc : &unit_counts.huge_fail, 1);
    if (!run.huge_pages) count(&unit_counts.fallback_mmap, 1);
  }
  if (run.base == NULL && alignment == UNIT_BYTES && (run.base = take_kept(units)) != NULL)
    return run;
  if (run.base == NULL) run.base = random_place_map(bytes, alignment, ahead << UNIT_SHIFT);
  if (run.base == NULL) {
    bool at_once;
    run.base = aligned_map(bytes, alignment, ahead << UNIT_SHIFT, &at_once);
    if (!at_once) count(&unit_counts.fallback_mmap, 1);
  }
  if (run.base == NULL) return run;
  map_prepare(run.base, units); /* refused: entering them will be, too */
  places_set(run.base, units, run.huge_pages ? PLACE_HUGE : PLACE_PLAIN);
  count(&unit_counts.mapped, units);
  return run;
}

/* --- runs of Huge blocks that still have their guards ------------------------------------------------ */

#if HAK_HARDENED

/* Takes guards away until `units` units without them are in the pool that were not before, from runs of at least `least` units. What lies in
 * front of each block has no pages, and goes. False: there were no such runs. */
static bool open_fenced(size_t units, size_t least) {
  size_t opened = 0;
  while (opened < units) {
    struct warm_run run;
    pool_lock();
    bool found = warm_take_any_fenced(&unit_pool, least + 1, node_now(), &run);
    pool_unlock();
    if (!found) break;
    if (!units_unfence(run.base + UNIT_BYTES, run.units - 1, run.fenced)) {
      units_discard(run.base, run.units);
      continue;
    }
    units_discard(run.base, 1);
    run.base += UNIT_BYTES;
    run.units--;
    run.fenced = 0;
    pool_lock();
    bool full = warm_is_full(&unit_pool);
    if (!full) warm_insert(&unit_pool, run);
    pool_unlock();
    if (full) give_back(run);
    else opened += run.units;
  }
  return opened > 0;
}

#else

static bool open_fenced(size_t units, size_t least) { return (void)units, (void)least, false; }

#endif

/* --- a long run out of short ones ------------------------------------------------------------------- */

/* Each piece may be a mapping of its own for ever. */
enum { PIECES = 8 };

/* A kernel that refuses may have cleared the place first: those before 6.17 do, when the range lies in more
 * than one mapping. Hence unit by unit, which never does unless the program itself split a unit (mlock,
 * mprotect), and hence the check. Left: another thread's mmap() that takes the cleared place before we do. */
enum unit_move unit_move(char *from, char *to) {
  enum { TRIES = 3 };
  if (!places_have_room()) return UNIT_STAYS;
  places_set(from, 1, PLACE_NONE); /* first: another thread may get the place at once */
  if (os_move(from, UNIT_BYTES, to, UNIT_BYTES)) {
    places_set(to, 1, PLACE_MOVED);
    return UNIT_MOVED;
  }
  places_set(from, 1, PLACE_PLAIN);
  for (int i = 0; i < TRIES; i++)
    if (os_map_at(to, UNIT_BYTES) != NULL) return UNIT_STAYS;
  return os_is_mapped(to) ? UNIT_STAYS : UNIT_PLACE_LOST;
}

/* Gives back a run of which one place was lost. */
static void give_up(char *base, size_t units, size_t lost) {
  unit_account(-1);
  if (lost > 0) give_back((struct warm_run){.base = base, .units = lost});
  char *rest = base + ((lost + 1) << UNIT_SHIFT);
  if (lost + 1 < units) give_back((struct warm_run){.base = rest, .units = units - lost - 1});
}

/* Puts pages of the pool into fresh units, which have none yet, from the one numbered `*to` on, and moves `*to` on.
 * False: a place was lost, it is the one at `*to`. Moving the pages of a unit into its place takes about 2 us, faulting
 * new ones 250 to 700 (docs/decisions/0008). */
static bool fill(char *base, size_t units, size_t *to) {
  struct warm_run pieces[PIECES];
  if (!unit_may_cut_mappings()) return true;
  open_fenced(units - *to, 1);
  pool_lock();
  size_t count_pieces = warm_take_pieces(&unit_pool, units - *to, node_now(), pieces, PIECES);
  pool_unlock();
  enum unit_move moved = UNIT_MOVED;
  size_t piece = 0;
  for (; piece < count_pieces && moved == UNIT_MOVED; piece++) {
    struct warm_run *from = &pieces[piece];
    while (from->units > 0) {
      moved = unit_move(from->base, base + (*to << UNIT_SHIFT));
      if (moved != UNIT_MOVED) break;
      unit_account(-1);
      *to += 1;
      from->base += UNIT_BYTES;
      from->units--;
    }
  }
  if (moved != UNIT_MOVED) give_back_all(&pieces[piece - 1], count_pieces - (piece - 1));
  return moved != UNIT_PLACE_LOST;
}

/* A run of new address space. Behind its first `empty` units it gets as many pages of the pool as there are. Pages that
 * are moved in are small ones, and would take the place of explicit huge pages. */
static struct unit_run map_filled(size_t units, size_t alignment, size_t empty) {
  struct unit_run run = map_run(units, alignment, empty, empty > 0);
  if (run.base == NULL || run.huge_pages || alignment != UNIT_BYTES || units < 2) return run;
  size_t filled = empty;
  if (!fill(run.base, units, &filled)) {
    give_up(run.base, units, filled);
    return map_run(units, alignment, empty, empty > 0);
  }
  run.used = filled - empty;
  if (run.used > 0) run.zeroed = false;
  return run;
}

/* --- interface ------------------------------------------------------------------------------------ */

static bool take_warm(size_t units, size_t alignment, unsigned node, struct unit_run *out) {
  struct warm_run warm = {0};
  pool_lock();
  bool found = warm_take(&unit_pool, units, alignment, node, &warm);
  if (!found) found = unit_stuck != NULL && stuck_take(units, alignment, node, &warm);
  bool is_over = warm_is_over(&unit_pool, above_target());
  pool_unlock();
  if (is_over) to_settle = true;
  if (found)
    *out = (struct unit_run){warm.base, warm.zeroed, warm.huge_pages, units, false, warm.node};
  return found;
}

void unit_settle(void) {
  struct warm_run victims[VICTIMS];
  if (HAK_LIKELY(!to_settle)) return;
  to_settle = false;
  pool_lock();
  size_t count_victims = warm_take_victims(&unit_pool, 0, above_target(), victims, VICTIMS);
  pool_unlock();
  give_back_all(victims, count_victims);
}

bool unit_could_fit(size_t units, size_t alignment) {
  size_t most = os_longest_mapping(), ours = mapped_now();
  if (alignment > most || units > most >> UNIT_SHIFT) return false;
  if (alignment > UNIT_BYTES) units += alignment >> UNIT_SHIFT;
  if (units > most >> UNIT_SHIFT) return false;
  return units <= ours || os_would_map((units - ours) << UNIT_SHIFT);
}

static struct unit_run map_missed(size_t units, size_t alignment, size_t ahead) {
  struct unit_run run = map_filled(units, alignment, ahead);
  if (run.base == NULL) return run;
  pool_lock();
  warm_missed(&unit_pool, units - run.used, held_now() - unit_pool.units);
  pool_unlock();
  return run;
}

static size_t trim(size_t most_mappings) {
  struct warm_run victims[VICTIMS];
  size_t bytes = 0;
  /* At most as many rounds as fill the pool once: a run that cannot be unmapped comes back. */
  for (int round = 0; round < WARM_RUNS / VICTIMS; round++) {
    size_t picked = 0;
    pool_lock();
    while (picked < VICTIMS && unit_pool.count > 0) victims[picked++] = warm_remove(&unit_pool, 0);
    pool_unlock();
    for (size_t i = 0; i < picked; i++) {
      bytes += victims[i].units << UNIT_SHIFT;
      give_back(victims[i]);
    }
    if (picked < VICTIMS) break;
  }
  return bytes + unmap_kept(INT32_MAX, most_mappings);
}

struct unit_run unit_acquire_behind(size_t ahead, size_t units, size_t alignment) {
  struct unit_run run = {0};
  units += ahead;
  if (alignment < UNIT_BYTES) alignment = UNIT_BYTES;
  if (units == 0 || units >= MAP_LEAVES * LEAF_UNITS) return run;
  /* Of the pool's runs it is known whether they start at such a place, not what lies ahead of it. */
  bool asks_pool = ahead == 0 || alignment == UNIT_BYTES;
  unsigned node = node_now();
  bool from_os = !asks_pool || !take_warm(units, alignment, node, &run);
  if (from_os && ahead == 0 && alignment == UNIT_BYTES && open_fenced(1, units))
    from_os = !take_warm(units, alignment, node, &run);
  if (from_os) {
    run = map_missed(units, alignment, ahead);
    if (run.base == NULL && asks_pool && node_are_many())
      from_os = !take_warm(units, alignment, NODE_ANY, &run);
    /* Refused: the pool may hold address space in pieces that are too small. What goes from there another thread
     * may get first. For one unit any piece would have done: the pool is empty, and nothing is given back here. */
    bool possible = run.base != NULL || unit_could_fit(units, alignment);
    for (int i = 0; i < TRIM_TRIES && run.base == NULL && possible; i++) {
      if (trim(PLACES_MOST_IN_NEED) == 0) break;
      run = map_run(units, alignment, ahead, ahead > 0);
    }
  }
  if (run.base != NULL) count(&unit_counts.acquired, 1);
  if (!from_os) run.used -= ahead;
  run.from_os = from_os;
  return run;
}

struct unit_run unit_acquire(size_t units, size_t alignment) {
  return unit_acquire_behind(0, units, alignment);
}

static void release(struct warm_run run) {
  struct warm_run victims[VICTIMS];
  size_t units = run.units;
  count(&unit_counts.released, 1);
  if (option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_OFF) count(&unit_counts.decommit_disabled, 1);
  run.since_ms = os_clock_ms();
  bool keep = true, inserted = false;
  /* One round, unless more than VICTIMS have to go. Bounded: where the kernel refuses to unmap, the
   * victims come back into the pool. */
  for (int round = 0; round < WARM_RUNS / VICTIMS && keep && !inserted; round++) {
    size_t count_victims = 0;
    pool_lock();
    keep = units <= warm_budget(&unit_pool) && !above_target();
    if (keep) count_victims = warm_take_victims(&unit_pool, units, false, victims, VICTIMS);
    else warm_no_room_for(&unit_pool, units);
    inserted = keep && !warm_is_full(&unit_pool) && count_victims < VICTIMS;
    if (inserted) warm_insert(&unit_pool, run);
    pool_unlock();
    give_back_all(victims, count_victims);
  }
  if (!inserted) give_back(run);
  free_lazily();
}

void unit_release(char *base, size_t units, bool huge_pages, unsigned node) {
  release((struct warm_run){
      .base = base, .units = units, .huge_pages = huge_pages, .node = (uint8_t)node});
}

#if HAK_HARDENED

bool unit_acquire_fenced(size_t units, size_t usable, struct fenced_run *out) {
  struct warm_run run;
  pool_lock();
  bool found = warm_take_fenced(&unit_pool, units, usable, node_now(), &run);
  bool is_over = warm_is_over(&unit_pool, above_target());
  pool_unlock();
  if (is_over) to_settle = true;
  if (!found) return false;
  count(&unit_counts.acquired, 1);
  *out = (struct fenced_run){run.base, run.units, run.fenced, run.node};
  return true;
}

void unit_release_fenced(struct fenced_run run) {
  release((struct warm_run){
      .base = run.base, .units = run.units, .fenced = run.usable, .node = run.node});
}

#endif

void unit_give_up(char *base, size_t units, bool huge_pages) {
  count(&unit_counts.released, 1);
  give_back((struct warm_run){.base = base, .units = units, .huge_pages = huge_pages});
}

struct unit_run unit_reserve(size_t units, size_t empty) {
  struct unit_run run = map_filled(units, UNIT_BYTES, empty);
  if (run.base != NULL) count(&unit_counts.acquired, 1);
  run.from_os = true;
  return run;
}

bool unit_extend(char *end, size_t units) {
  if (os_map_at(end, units << UNIT_SHIFT) == NULL) return false;
  map_prepare(end, units);
  places_set(end, units, PLACE_PLAIN);
  count(&unit_counts.mapped, units);
  size_t filled = 0;
  if (fill(end, units, &filled)) return true;
  give_up(end, units, filled);
  return false;
}

size_t unit_trim(void) { return trim(PLACES_MOST); }

size_t unit_warm_bytes(void) {
  return atomic_load_explicit(&warm_units, memory_order_relaxed) << UNIT_SHIFT;
}

size_t unit_prewarm(size_t units) {
  size_t room = warm_budget(&unit_pool), wanted = units < room ? units : room;
  if (wanted == 0) return 0;
  struct unit_run run = map_run(wanted, UNIT_BYTES, 0, false);
  if (run.base == NULL) return 0;
  if (!run.huge_pages && option_value(SS_HUGEPAGE) == HUGEPAGE_THP)
    unit_advise_huge(run.base, wanted);
  os_populate(run.base, wanted << UNIT_SHIFT); /* refused: the pages come by touch */
  pool_lock();
  warm_insert(&unit_pool, (struct warm_run){.base = run.base,
                                            .units = wanted,
                                            .since_ms = os_clock_ms(),
                                            .zeroed = true,
                                            .huge_pages = run.huge_pages,
                                            .node = run.node});
  pool_unlock();
  return wanted;
}

size_t unit_age(void) {
  struct warm_run victims[VICTIMS];
  size_t picked = VICTIMS, young = 0;
  if (option_value(WARM_POOL_DECAY_MS) == 0) return 0;
  free_lazily();
  for (int round = 0; round < WARM_RUNS / VICTIMS && picked == VICTIMS; round++) {
    pool_lock();
    picked = warm_take_victims(&unit_pool, 0, above_target(), victims, VICTIMS);
    young = 0;
    for (size_t i = 0; i < unit_pool.count; i++)
      if (!unit_pool.runs[i].lazily_freed) young += unit_pool.runs[i].units << UNIT_SHIFT;
    pool_unlock();
    give_back_all(victims, picked);
  }
  if (places_have_room()) unmap_kept(KEPT_AT_ONCE, PLACES_MOST);
  return option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_OFF ? 0 : young;
}

void unit_forget(void) {
  unit_pool = (struct warm_pool){0};
  unit_stuck = NULL;
  atomic_store_explicit(&warm_units, 0, memory_order_relaxed);
}
