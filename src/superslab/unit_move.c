/* unit_move.c - see unit_move.h. */
#include "superslab/unit_move.h"

#include <string.h>

#include "observe/report.h"
#include "superslab/guard_pages.h"
#include "superslab/map.h"
#include "superslab/mappings.h"
#include "superslab/unit_os.h"

/* --- runs of Huge blocks that still have their guards ------------------------------------------------ */

#if HAK_HARDENED

bool unit_open_fenced(size_t units, size_t least) {
  size_t opened = 0;
  while (opened < units) {
    struct warm_run run;
    unit_pool_lock();
    bool found = warm_take_any_fenced(&unit_pool, least, node_now(), &run);
    unit_pool_unlock();
    if (!found) break;
    /* What lies in front has no pages, nor has a unit that is for the guard alone. */
    units_discard(run.base, 1);
    run.base += UNIT_BYTES;
    run.units--;
    if (run.fenced % UNIT_BYTES == 0) {
      units_discard(run.base + run.fenced, 1);
      run.units--;
    } else if (!units_open_tail(run.base, run.units, run.fenced)) {
      units_discard(run.base, run.units);
      continue;
    }
    run.fenced = 0;
    unit_pool_lock();
    bool full = warm_is_full(&unit_pool);
    if (!full) warm_insert(&unit_pool, run);
    unit_pool_unlock();
    if (full) unit_give_back(run);
    else opened += run.units;
  }
  return opened > 0;
}

#else

bool unit_open_fenced(size_t units, size_t least) { return (void)units, (void)least, false; }

#endif

/* --- a long run out of short ones ------------------------------------------------------------------- */

/* Each piece may be a mapping of its own for ever. */
enum { PIECES = 8 };

/* A kernel that refuses may have cleared the place first: those before 6.17 do, when the range lies in more
 * than one mapping. Hence unit by unit, which never does unless the program itself split a unit (mlock,
 * mprotect), and hence the check. Left: another thread's mmap() that takes the cleared place before we do. */
enum unit_move unit_move(char *from, char *to) {
  enum { TRIES = 3 };
  if (!mappings_have_room() || os_is_heard()) return UNIT_STAYS;
  mappings_set(from, 1, MAPPING_NONE); /* first: another thread may get the place at once */
  if (os_move(from, UNIT_BYTES, to, UNIT_BYTES)) {
    mappings_set(to, 1, MAPPING_MOVED);
    return UNIT_MOVED;
  }
  mappings_set(from, 1, MAPPING_PLAIN);
  for (int i = 0; i < TRIES; i++)
    if (os_map_at(to, UNIT_BYTES) != NULL) return UNIT_STAYS;
  return os_is_mapped(to) ? UNIT_STAYS : UNIT_PLACE_LOST;
}

/* Gives back a run of which one place was lost. */
static void give_up(char *base, size_t units, size_t lost) {
  unit_account(-1);
  if (lost > 0) unit_give_back((struct warm_run){.base = base, .units = lost});
  char *rest = base + ((lost + 1) << UNIT_SHIFT);
  if (lost + 1 < units) unit_give_back((struct warm_run){.base = rest, .units = units - lost - 1});
}

/* Puts pages of the pool into fresh units, which have none yet, from the one numbered `*to` on, and moves `*to` on.
 * False: a place was lost, it is the one at `*to`. Moving the pages of a unit into its place takes about 2 us, faulting
 * new ones 250 to 700 (docs/decisions/0008). */
static bool fill(char *base, size_t units, size_t *to) {
  struct warm_run pieces[PIECES];
  /* Assembled, a block is several mappings, which `realloc` cannot make longer as one (unit_move_run). */
  if (!unit_may_cut_mappings() || os_memory_is_limited()) return true;
  unit_open_fenced(units - *to, 1);
  unit_pool_lock();
  size_t count_pieces = warm_take_pieces(&unit_pool, units - *to, node_now(), pieces, PIECES);
  unit_pool_unlock();
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
  if (moved != UNIT_MOVED) unit_give_back_all(&pieces[piece - 1], count_pieces - (piece - 1));
  return moved != UNIT_PLACE_LOST;
}

struct unit_run unit_map_filled(size_t units, size_t alignment, size_t empty, size_t bare) {
  struct unit_run run = unit_map_run(units, alignment, empty, empty > 0);
  if (run.base == NULL || run.huge_pages || alignment != UNIT_BYTES || units < 2) return run;
  size_t filled = empty;
  if (!fill(run.base, units - bare, &filled)) {
    give_up(run.base, units, filled);
    return unit_map_run(units, alignment, empty, empty > 0);
  }
  run.used = filled - empty;
  if (run.used > 0) run.zeroed = false;
  return run;
}

struct unit_run unit_reserve(size_t units, size_t empty, size_t bare) {
  struct unit_run run = unit_map_filled(units, UNIT_BYTES, empty, bare);
  if (run.base != NULL) unit_count(&unit_counts.acquired, 1);
  run.from_os = true;
  return run;
}

/* What of a longer mapping is in front of `base` or behind its units. Refused, it is address space that nobody touches. */
static void trim_ends(char *mapped, char *base, size_t units) {
  char *end = base + (units << UNIT_SHIFT), *mapped_end = mapped + ((units + 1) << UNIT_SHIFT);
  if (base > mapped) os_unmap_unused(mapped, (size_t)(base - mapped));
  if (mapped_end > end) os_unmap_unused(end, (size_t)(mapped_end - end));
}

/* The kernel chooses the place. Since Linux 6.7 it is at a multiple of 2 MiB; before, the block is moved up within the unit that is too
 * many. NULL: nothing has moved. */
static char *move_mapping(char *base, size_t units, size_t more, size_t used) {
  char *mapped = os_resize(base, units << UNIT_SHIFT, (units + more + 1) << UNIT_SHIFT);
  if (mapped == NULL) return NULL;
  size_t head = (size_t)(-(uintptr_t)mapped & (UNIT_BYTES - 1));
  char *moved = mapped + head;
  if (head > 0) memmove(moved, mapped, used);
  trim_ends(mapped, moved, units + more);
  return moved;
}

char *unit_move_run(char *base, size_t units, size_t more, size_t used) {
  /* It is copied: whoever listens would not hear of a move; and one that the kernel had joined with its neighbours leaves them as two
   * mappings. */
  if (!mappings_have_room() || os_is_heard()) return NULL;
  bool huge = mappings_any_huge(base, units);
  if (huge && !unit_advise_huge(base, units)) return NULL; /* else it is more than one mapping */
  /* First: a block that has moved to where the map has no leaf would be lost. */
  struct map_spares spares;
  if (!map_spares_make(&spares, units + more)) return NULL;
  mappings_set(base, units, MAPPING_NONE);
  char *moved = move_mapping(base, units, more, used);
  char *at = moved != NULL ? moved : base;
  if (moved != NULL && !map_prepare_with(moved, units + more, &spares))
    report_corruption("realloc: the system chose a place beyond the address map");
  mappings_set(at, moved != NULL ? units + more : units, huge ? MAPPING_HUGE : MAPPING_PLAIN);
  if (moved != NULL) unit_count(&unit_counts.mapped, more);
  map_spares_drop(&spares);
  return moved;
}

/* What a block gave up when it shrank lies there, or what was joined with it. */
static bool take_from_pool(const char *end, size_t units, unsigned node) {
  unit_pool_lock();
  bool found = warm_take_at(&unit_pool, end, units, node);
  unit_pool_unlock();
  if (found) unit_count(&unit_counts.acquired, 1);
  return found;
}

bool unit_extend(char *end, size_t units, size_t bare, unsigned node) {
  if (bare == 0 && take_from_pool(end, units, node)) return true;
  if (os_map_at(end, units << UNIT_SHIFT) == NULL) return false;
  map_prepare(end, units);
  mappings_set(end, units, MAPPING_PLAIN);
  unit_count(&unit_counts.mapped, units);
  size_t filled = 0;
  if (units <= bare || fill(end, units - bare, &filled)) return true;
  give_up(end, units, filled);
  return false;
}
