/* unit.c - units of 2 MiB: from the OS, and the warm pool that keeps empty ones for reuse.
 *
 * The pool is a small array of runs in the order in which they came: the oldest leaves first, when the
 * pool is over its bytes (HAKMEM_WARM_POOL_MB) or the run is older than HAKMEM_WARM_POOL_DECAY_MS.
 * Time is looked at when a unit comes or goes, never on a fast path. System calls are made with
 * the lock released.
 */
#include <string.h>

#include "policy/options.h"
#include "superslab/superslab.h"

struct warm_run {
  char *base;
  size_t units;
  uint64_t since_ms;
  bool zeroed;
  bool huge_pages;
  bool lazily_freed; /* MADV_FREE was said: still counts as resident, costs the kernel nothing */
};

/* 64 runs: more would make the search in unit_acquire visible beside the system call it saves. */
enum { POOL_RUNS = 64, VICTIMS = 8 };

/* A run that the kernel refused to unmap and that found no place in the pool: its own first bytes
 * hold the link, so that even then nothing is lost. */
struct stuck_run {
  struct stuck_run *next;
  size_t units;
};

static struct lock unit_lock;
static struct warm_run pool[POOL_RUNS]; /* oldest first */
static size_t pool_count;
static size_t pool_units;
static struct stuck_run *stuck;

static _Atomic uint64_t units_mapped, acquired, released, fallback_mmap, huge_alloc, huge_fail;
static _Atomic uint64_t decommit_disabled;

static void count(_Atomic uint64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void unit_account(ptrdiff_t units) { count(&units_mapped, (uint64_t)units); }

/* --- the pool, all under unit_lock ------------------------------------------------------------- */

static struct warm_run pool_remove(size_t at) {
  struct warm_run run = pool[at];
  pool_count--;
  memmove(&pool[at], &pool[at + 1], (pool_count - at) * sizeof pool[0]);
  pool_units -= run.units;
  return run;
}

static bool merges(const struct warm_run *a, const struct warm_run *b) {
  return a->base + (a->units << UNIT_SHIFT) == b->base && a->zeroed == b->zeroed &&
         a->huge_pages == b->huge_pages && a->lazily_freed == b->lazily_freed;
}

/* The caller has made sure of a free place. */
static void pool_insert(struct warm_run run) {
  for (size_t i = 0; i < pool_count;) {
    if (merges(&pool[i], &run)) {
      run.units += pool[i].units;
      run.base = pool[i].base;
    } else if (merges(&run, &pool[i])) {
      run.units += pool[i].units;
    } else {
      i++;
      continue;
    }
    pool_remove(i);
  }
  pool[pool_count++] = run;
  pool_units += run.units;
}

static bool fits(const char *base, size_t have, size_t want, size_t alignment) {
  return have >= want && ((uintptr_t)base & (alignment - 1)) == 0;
}

/* Smallest run that fits, of equal ones the youngest (its pages are the likeliest to be in caches). */
static bool pool_take(size_t units, size_t alignment, struct warm_run *out) {
  size_t best = POOL_RUNS;
  for (size_t i = 0; i < pool_count; i++)
    if (fits(pool[i].base, pool[i].units, units, alignment) &&
        (best == POOL_RUNS || pool[i].units <= pool[best].units))
      best = i;
  if (best == POOL_RUNS) return false;
  *out = pool[best];
  if (pool[best].units == units) {
    pool_remove(best);
  } else if (alignment == UNIT_BYTES) {
    /* The end is taken, not the front: a pointer to the start of a freed huge block then stays no
     * block's start for as long as can be, and a second free of it is seen. */
    pool[best].units -= units;
    pool_units -= units;
    out->base += pool[best].units << UNIT_SHIFT;
  } else {
    pool[best].base += units << UNIT_SHIFT;
    pool[best].units -= units;
    pool_units -= units;
  }
  return true;
}

static bool stuck_take(size_t units, size_t alignment, char **out) {
  for (struct stuck_run **link = &stuck; *link != NULL; link = &(*link)->next) {
    struct stuck_run *run = *link;
    if (run->units != units || !fits((char *)run, run->units, units, alignment)) continue;
    *link = run->next;
    *out = (char *)run;
    return true;
  }
  return false;
}

static size_t budget_units(void) {
  if (option_value(SS_MEM_LEAN) && option_value(WARM_POOL_DECAY_MS) == 0) return 0;
  return (size_t)option_value(WARM_POOL_MB) * MIB >> UNIT_SHIFT;
}

static bool above_target(void) {
  size_t target = (size_t)option_value(SS_MEM_LEAN_TARGET_MB) * MIB >> UNIT_SHIFT;
  return target != 0 && atomic_load_explicit(&units_mapped, memory_order_relaxed) > target;
}

/* Oldest runs that have to go: over the budget once `incoming` units are in, or too old. */
static size_t pool_pick_victims(size_t incoming, struct warm_run *victims) {
  size_t budget = above_target() ? 0 : budget_units();
  uint64_t decay = (uint64_t)option_value(WARM_POOL_DECAY_MS);
  uint64_t now = decay != 0 && pool_count != 0 ? os_clock_ms() : 0;
  bool full = incoming != 0 && pool_count == POOL_RUNS;
  size_t picked = 0;
  while (picked < VICTIMS && pool_count > 0) {
    bool over = pool_units + incoming > budget || full;
    bool old = decay != 0 && now - pool[0].since_ms >= decay &&
               option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_DONTNEED;
    if (!over && !old) break;
    victims[picked++] = pool_remove(0);
    full = false;
  }
  return picked;
}

/* HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE: runs past their time stay, marked for the kernel to take. */
static void free_lazily(void) {
  if (option_value(SS_MEM_LEAN_DECOMMIT) != DECOMMIT_FREE) return;
  uint64_t decay = (uint64_t)option_value(WARM_POOL_DECAY_MS);
  if (decay == 0) return;
  uint64_t now = os_clock_ms();
  for (;;) {
    struct warm_run run;
    bool found = false;
    lock_acquire(&unit_lock);
    for (size_t i = 0; i < pool_count && !found; i++)
      if (!pool[i].lazily_freed && now - pool[i].since_ms >= decay) {
        run = pool_remove(i);
        found = true;
      }
    lock_release(&unit_lock);
    if (!found) return;
    os_decommit_lazily(run.base, run.units << UNIT_SHIFT);
    run.lazily_freed = true;
    run.zeroed = false;
    run.since_ms = now;
    lock_acquire(&unit_lock);
    if (pool_count < POOL_RUNS) {
      pool_insert(run);
      found = false;
    }
    lock_release(&unit_lock);
    if (found && os_unmap(run.base, run.units << UNIT_SHIFT))
      count(&units_mapped, (uint64_t) - (int64_t)run.units);
  }
}

/* --- from and to the OS, without the lock -------------------------------------------------------- */

static void give_back(struct warm_run run) {
  size_t bytes = run.units << UNIT_SHIFT;
  if (os_unmap(run.base, bytes)) {
    count(&units_mapped, (uint64_t) - (int64_t)run.units);
    return;
  }
  run.zeroed = os_decommit(run.base, bytes);
  run.since_ms = os_clock_ms();
  lock_acquire(&unit_lock);
  if (pool_count < POOL_RUNS) {
    pool_insert(run);
  } else {
    struct stuck_run *self = (struct stuck_run *)(void *)run.base;
    self->units = run.units;
    self->next = stuck;
    stuck = self;
  }
  lock_release(&unit_lock);
}

static char *map_by_hint(size_t units, size_t alignment) {
  enum { TRIES = 16 };
  for (int i = 0; i < TRIES; i++) {
    char *hint = map_next_hint(units, alignment);
    char *p = hint != NULL ? os_map_at(hint, units << UNIT_SHIFT) : NULL;
    if (p != NULL) return p;
  }
  return NULL;
}

static char *map_aligned(size_t units, size_t alignment) {
  size_t bytes = units << UNIT_SHIFT;
  if (map_slices < MAP_FULL_SLICES) return map_by_hint(units, alignment);
  /* Since Linux 6.7 the kernel aligns such lengths to 2 MiB by itself: one call. */
  char *p = os_map(bytes, OS_READ_WRITE);
  if (p == NULL) return NULL;
  if (((uintptr_t)p & (alignment - 1)) == 0 && map_covers(p, units)) return p;
  os_unmap(p, bytes);
  count(&fallback_mmap, 1);
  p = os_map(bytes + alignment, OS_READ_WRITE);
  if (p == NULL) return NULL;
  size_t head = (size_t)(-(uintptr_t)p & (alignment - 1));
  /* A trim that the kernel refuses leaves address space that nobody touches. */
  if (head != 0) os_unmap(p, head);
  if (alignment - head != 0) os_unmap(p + head + bytes, alignment - head);
  p += head;
  if (map_covers(p, units)) return p;
  os_unmap(p, bytes);
  return NULL;
}

static struct unit_run map_run(size_t units, size_t alignment) {
  struct unit_run run = {.zeroed = true};
  size_t bytes = units << UNIT_SHIFT;
  if (option_value(SS_HUGEPAGE) == HUGEPAGE_EXPLICIT && alignment == UNIT_BYTES) {
    run.base = os_map_huge_pages(bytes, UNIT_BYTES);
    if (run.base != NULL && !map_covers(run.base, units)) {
      os_unmap(run.base, bytes);
      run.base = NULL;
    }
    run.huge_pages = run.base != NULL;
    count(run.huge_pages ? &huge_alloc : &huge_fail, 1);
    if (!run.huge_pages) count(&fallback_mmap, 1);
  }
  if (run.base == NULL) run.base = map_aligned(units, alignment);
  if (run.base != NULL) count(&units_mapped, units);
  return run;
}

/* --- interface ------------------------------------------------------------------------------------ */

static bool take_warm(size_t units, size_t alignment, struct unit_run *out) {
  struct warm_run victims[VICTIMS], warm = {0};
  lock_acquire(&unit_lock);
  bool found = pool_take(units, alignment, &warm);
  if (!found) found = stuck != NULL && stuck_take(units, alignment, &warm.base);
  size_t count_victims = pool_pick_victims(0, victims);
  lock_release(&unit_lock);
  for (size_t i = 0; i < count_victims; i++) give_back(victims[i]);
  if (found) *out = (struct unit_run){warm.base, warm.zeroed, warm.huge_pages};
  return found;
}

struct unit_run unit_acquire(size_t units, size_t alignment) {
  struct unit_run run = {0};
  if (alignment < UNIT_BYTES) alignment = UNIT_BYTES;
  if (units == 0 || units >= map_slices / SLICES_PER_UNIT) return run;
  if (!take_warm(units, alignment, &run)) {
    run = map_run(units, alignment);
    /* Refused: the pool may hold address space in pieces that are too small. */
    if (run.base == NULL && unit_trim() > 0) run = map_run(units, alignment);
  }
  if (run.base != NULL) count(&acquired, 1);
  return run;
}

void unit_release(char *base, size_t units) {
  struct warm_run victims[VICTIMS];
  struct warm_run run = {.base = base, .units = units};
  count(&released, 1);
  if (option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_OFF) count(&decommit_disabled, 1);
  if (units > budget_units() || above_target()) {
    give_back(run);
    return;
  }
  run.since_ms = os_clock_ms();
  bool inserted = false;
  /* One round, unless more than VICTIMS have to go. Bounded: where the kernel refuses to unmap, the
   * victims come back into the pool. */
  for (int round = 0; round < POOL_RUNS / VICTIMS && !inserted; round++) {
    lock_acquire(&unit_lock);
    size_t count_victims = pool_pick_victims(units, victims);
    inserted = pool_count < POOL_RUNS && count_victims < VICTIMS;
    if (inserted) pool_insert(run);
    lock_release(&unit_lock);
    for (size_t i = 0; i < count_victims; i++) give_back(victims[i]);
  }
  if (!inserted) give_back(run);
  free_lazily();
}

bool unit_extend(char *end, size_t units) {
  if (!map_covers(end, units) || os_map_at(end, units << UNIT_SHIFT) == NULL) return false;
  count(&units_mapped, units);
  return true;
}

size_t unit_trim(void) {
  struct warm_run victims[VICTIMS];
  size_t bytes = 0;
  /* At most as many rounds as fill the pool once: a run that cannot be unmapped comes back. */
  for (int round = 0; round < POOL_RUNS / VICTIMS; round++) {
    size_t picked = 0;
    lock_acquire(&unit_lock);
    while (picked < VICTIMS && pool_count > 0) victims[picked++] = pool_remove(0);
    lock_release(&unit_lock);
    for (size_t i = 0; i < picked; i++) {
      bytes += victims[i].units << UNIT_SHIFT;
      give_back(victims[i]);
    }
    if (picked < VICTIMS) break;
  }
  return bytes;
}

void unit_stats_get(struct unit_stats *stats) {
  lock_acquire(&unit_lock);
  stats->units_warm = pool_units;
  lock_release(&unit_lock);
  stats->bytes_mapped = atomic_load_explicit(&units_mapped, memory_order_relaxed) << UNIT_SHIFT;
  stats->acquired = atomic_load_explicit(&acquired, memory_order_relaxed);
  stats->released = atomic_load_explicit(&released, memory_order_relaxed);
  stats->fallback_mmap = atomic_load_explicit(&fallback_mmap, memory_order_relaxed);
  stats->huge_alloc = atomic_load_explicit(&huge_alloc, memory_order_relaxed);
  stats->huge_fail = atomic_load_explicit(&huge_fail, memory_order_relaxed);
  stats->decommit_disabled = atomic_load_explicit(&decommit_disabled, memory_order_relaxed);
}

void unit_lock_acquire(void) { lock_acquire(&unit_lock); }
void unit_lock_release(void) { lock_release(&unit_lock); }
void unit_lock_reset(void) { lock_reset(&unit_lock); }
