/* guard_pages.h - pages round Large and Huge blocks, and behind slabs, that cannot be touched. Hardened variant only: elsewhere
 * all of it folds to nothing (docs/decisions/0024).
 *
 *   Huge block   has one more unit in front of its first, whose last 64 KiB cannot be touched, nor can 64 KiB behind its last page,
 *                as far as its last unit reaches: at least a page, for which it gets one more unit where there would be none. With
 *                HAKMEM_GUARD=full they begin with the next page; in light the guard may lie further up (huge_guard_place).
 *   Large block  lies in a SuperSlab for such blocks alone, whose first slice cannot be touched. Its span goes on behind the last page of
 *                the block, by at least a page. With full nothing of that can be touched; in light the last page of the span, so
 *                that no call is needed unless the slices change.
 *   slab         with HAKMEM_GUARD=full: the last page of its span cannot be touched.
 *
 * With full a freed span of a Large block cannot be touched until its slices are used again, and keeps its pages (span_close). The slices that it
 * leaves to the SuperSlab are marked as those with guards are. Where the system refuses to open them, they stay free, and other memory serves.
 *
 * Such a SuperSlab or Huge block is `fenced`. A block whose guard the kernel refuses works without it. Guards stay where a span was
 * while its slices are free (superslab->guards), and go when they are handed out again, or with all of the unit. Units of a Huge block keep
 * theirs in the warm pool (warm.h), until they are wanted for something else; what else comes into the pool has none. Explicit huge pages cannot be guarded in parts: where they are asked for there are no guards.
 *
 * All system calls are made without superslab_lock.
 */
#ifndef HAK_GUARD_PAGES_H
#define HAK_GUARD_PAGES_H

#include "policy/options.h"
#include "superslab/superslab.h"

/* In front of a Huge block and behind it. More is hardly ever jumped over, and costs: with guards of whole units, 512 entries of a page table
 * each, to allocate and free a block of 3 MiB took 21 us. */
#define UNITS_GUARD SLICE_BYTES

HAK_INLINE size_t round_to_page(size_t bytes) {
  size_t page = os_page_size();
  return bytes == 0 ? page : (bytes + page - 1) & ~(page - 1);
}

/** Are new Large and Huge blocks fenced? */
HAK_INLINE bool guard_pages_wanted(void) {
  return option_guard() != GUARD_OFF && option_value(SS_HUGEPAGE) != HUGEPAGE_EXPLICIT;
}

/** Is there a guard behind new slabs? Not where a page is all that a slab may have. */
HAK_INLINE bool guard_pages_behind_slabs(void) {
  return option_guard() == GUARD_FULL && guard_pages_wanted() && os_page_size() < SLICE_BYTES;
}

/** Do freed Large blocks wait, closed, as small ones wait in the quarantine? */
HAK_INLINE bool guard_pages_hold_freed(void) {
  return option_guard() == GUARD_FULL && option_value(GUARD_QUARANTINE_KB) != 0 &&
         guard_pages_wanted();
}

/* How far behind a Huge block's last page its guard may lie: an eighth of the block. The most is what slabs[0].guarded holds. */
HAK_INLINE size_t huge_guard_room(size_t usable) {
  return usable / 8 < 1 * GIB ? usable / 8 : 1 * GIB;
}

/* So much further up than it has to be a guard may stay: pages come by touch, and with huge pages it is no more than rounding up to them. */
HAK_INLINE bool huge_guard_serves(size_t guard_at, size_t usable) {
  size_t room = huge_guard_room(usable), more = room > 512 * KIB ? room : 512 * KIB;
  return guard_at >= usable && guard_at - usable <= more;
}

/* Units of a Huge block and the one in front of it, with both guards in place. */
struct fenced_run {
  char *base;
  size_t units,
      guard_at; /* `guard_at`: the guard begins so many bytes behind the block's start, which is the second unit's */
  uint8_t node;
};

#if HAK_HARDENED

/** A new SuperSlab for Large blocks: its first slice is guarded. Its free_mask leaves that slice out. */
void superslab_fence(struct superslab *superslab);
/** Before an empty SuperSlab is given up: no page of it is guarded any more. False: perhaps some are. */
bool superslab_unfence(struct superslab *superslab);

/** Slices of the unit that will have guards when the span is free. */
uint32_t span_guards(const struct slab *span);
/** A span just acquired: the first `usable` bytes can be touched, the others cannot. False, and nothing has changed: guards of a former
 * use could not be removed. */
bool span_guard(struct slab *span, size_t usable);
/** The same for a slab: all but its last page. */
bool span_guard_slab(struct slab *span);
/** Moves the guard of a span in use that had `had` slices so far, to where `usable` bytes want it; they leave room for it. False: the guard
 * is where it was, the span no longer or shorter. */
bool span_fit(struct slab *span, unsigned had, size_t usable);
/** The span's length has changed: if it is fenced, so much of it stays usable as was, or all that is left. Under superslab_lock. */
void span_keep_usable(struct slab *span, size_t usable);
/** Guards what cannot be touched at the span's end. */
void span_guard_again(struct slab *span);
/** Guards the slice in front of a span, if it is free and has no guard: an alignment has left it out. */
void span_guard_front(struct slab *span);

/** With full, unless the quarantine is off: a freed span cannot be touched until span_open, or until span_guard has it again. Of its holder. */
void span_close(struct slab *span);
/** A span that was kept. False: perhaps it is still closed. */
bool span_open(struct slab *span);

/** Guards what lies in front of a Huge block's units, and what lies `guard_at` bytes behind the start. */
void units_fence(char *base, size_t units, size_t guard_at);
/** Removes both. False: perhaps not. */
bool units_unfence(char *base, size_t units, size_t guard_at);
/** The same of the second alone. Where it has a unit for itself, that is mapped afresh. */
void units_guard_tail(char *base, size_t units, size_t guard_at);
bool units_open_tail(char *base, size_t units, size_t guard_at);
/** Gives units to the OS that may have guards, or that have no pages. Refused, they stay mapped for ever: not for the warm pool. */
void units_discard(char *base, size_t units);

/** Out of the warm pool: units that serve a Huge block of `usable` bytes as they are, or as many as it needs, of which the guard behind the
 * block has to be moved if that begins too early. False: there are none. */
bool unit_acquire_fenced(size_t usable, struct fenced_run *out);
/** Into the warm pool, or to the OS: as unit_release. */
void unit_release_fenced(struct fenced_run run);

#else

static inline void superslab_fence(struct superslab *superslab) { (void)superslab; }
static inline bool superslab_unfence(struct superslab *superslab) { return superslab != NULL; }
static inline uint32_t span_guards(const struct slab *span) { return (void)span, 0; }
static inline bool span_guard(struct slab *span, size_t usable) {
  return (void)usable, span != NULL;
}
static inline bool span_guard_slab(struct slab *span) { return span != NULL; }
static inline bool span_fit(struct slab *span, unsigned had, size_t usable) {
  return (void)had, (void)usable, span != NULL;
}
static inline void span_keep_usable(struct slab *span, size_t usable) { (void)span, (void)usable; }
static inline void span_guard_again(struct slab *span) { (void)span; }
static inline void span_guard_front(struct slab *span) { (void)span; }
static inline void span_close(struct slab *span) { (void)span; }
static inline bool span_open(struct slab *span) {
  (void)span;
  return true;
}
static inline void units_fence(char *base, size_t units, size_t guard_at) {
  (void)base, (void)units, (void)guard_at;
}
static inline bool units_unfence(char *base, size_t units, size_t guard_at) {
  return (void)units, (void)guard_at, base != NULL;
}
static inline void units_guard_tail(char *base, size_t units, size_t guard_at) {
  (void)base, (void)units, (void)guard_at;
}
static inline bool units_open_tail(char *base, size_t units, size_t guard_at) {
  return (void)units, (void)guard_at, base != NULL;
}
static inline void units_discard(char *base, size_t units) { (void)base, (void)units; }
static inline bool unit_acquire_fenced(size_t usable, struct fenced_run *out) {
  return (void)usable, (void)out, false;
}
static inline void unit_release_fenced(struct fenced_run run) { (void)run; }

#endif

#endif
