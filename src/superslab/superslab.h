/* superslab.h - the data model of everything below the thread heaps.
 *
 * Glossary
 *   unit       2 MiB of address space at a multiple of 2 MiB: one huge page, one entry of the
 *              address map.
 *   slice      64 KiB, a 32nd of a unit: what a SuperSlab is cut into.
 *   SuperSlab  a unit cut into slices.
 *   span       a run of slices in one SuperSlab with one use: a slab, or one Large block.
 *   slab       a span that holds blocks of one size class and belongs to one thread heap.
 *   huge block one or more whole units for one block (Huge tier).
 *   descriptor `struct slab`: what is known of a slice. All of it lies outside the user's memory, so
 *              user blocks are naturally aligned and an overflow cannot reach it.
 *
 * Locks: `superslab_lock` guards the free masks and lists of SuperSlabs; fields of a slab marked
 * "owner" belong to the heap that owns the slab and are guarded by that heap's lock. Order of
 * locks: heap -> superslab_lock -> unit_lock -> meta_lock.
 */
#ifndef HAK_SUPERSLAB_H
#define HAK_SUPERSLAB_H

#include "os/lock.h"
#include "os/os.h"
#include "superslab/node.h"

#define UNIT_SHIFT 21
#define UNIT_BYTES ((size_t)1 << UNIT_SHIFT)
#define SLICE_SHIFT 16
#define SLICE_BYTES ((size_t)1 << SLICE_SHIFT)
#define SLICES_PER_UNIT 32u

/** Bytes from which on new SuperSlabs may use transparent huge pages: those that the heap owns for its slabs; half as many that
 * the process has mapped, for Large blocks, which do not follow later. Below, the untouched rest of a 2 MiB page weighs more than
 * the faults it saves (docs/decisions/0004, 0041); what a heap had before becomes huge pages by and by (collapse.h). */
#define HUGE_PAGES_FROM (32 * MIB)

/* What a span may lie in. */
enum span_pages {
  PAGES_SMALL,
  PAGES_HUGE, /* a SuperSlab that has to be made for it may use transparent huge pages */
  PAGES_FRESH /* the same, and it is rather made than one used whose huge page was broken up */
};

enum slab_kind {
  KIND_FREE = 0,         /* slice is not handed out */
  KIND_SLAB = 1,         /* blocks of a size class */
  KIND_LARGE = 2,        /* one Large block */
  KIND_CACHED = 3,       /* a freed Large block in some thread's span cache */
  KIND_DECOMMITTING = 4, /* the same, its pages are being given back: not to be taken now */
  KIND_DECOMMITTED = 5,  /* the same, without pages; or on its way back to its SuperSlab */
};

/* Which list of its heap a slab is in. */
enum slab_list {
  LIST_NONE,
  LIST_PARTIAL,     /* has free blocks, or memory that is no blocks yet */
  LIST_DECOMMITTED, /* all that can be had from it was given back (slab/holes.h) */
  LIST_FULL,        /* of a named heap: nothing can be had from it (heap/named.h) */
  LIST_NAMED        /* a named heap's Large or Huge block; the heap's number is in `capacity` */
};

struct inbox; /* heap/heap.h: where the owner's freed blocks of this class go */

/* Descriptor of a slice. In a span of several slices each has `block_size`, `kind`, `offset` and
 * `size_class`; the rest is kept in the first one only. Who owns a slab is said by the address map. */
struct slab {
  _Alignas(64) void *free_list; /* owner: blocks that came back from a bin */
  struct slab *next, *prev;     /* owner: neighbours in the heap's list of partial slabs */
  _Atomic uint32_t block_size;  /* once per use (statistics read it any time); bytes */
  uint32_t touched;            /* owner: bytes from the start that were ever written or populated */
  _Atomic uint16_t free_count; /* owner (statistics read it): blocks in free_list */
  _Atomic uint16_t carved;     /* owner (statistics read it): blocks made so far, from the start */
  uint16_t capacity;           /* once per use: blocks that fit */
  uint8_t slices;              /* once per use: length of the span */
  uint8_t offset;              /* once per use: how many slices after the span's first */
  uint8_t index;               /* once: number of the slice in its unit */
  _Atomic uint8_t kind;        /* enum slab_kind; relaxed: readers got the pointer from its owner */
  uint8_t size_class;          /* once per use */
  uint8_t listed;              /* owner: enum slab_list */
  bool purging;   /* owner: its free blocks are with a purge (slab/holes.h); never listed then */
  uint8_t age;    /* owner: scans of the purger since a block went in or out; SLAB_CLEAN */
  uint16_t holes; /* owner: bit i: page i of this slice is given back; in every slice of the slab */
  _Atomic uint16_t hole_count; /* owner (statistics read it): free blocks that touch such a page */
  bool tail_decommitted;       /* owner: the pages behind the last block were given back */
  _Atomic uint8_t
      sampled; /* 1: a slab of the sampler's, or a Large or Huge block that is a sample (of a Huge one: in
                              slabs[0]); 0 in what is free. relaxed */
  /* Hardened, first descriptor of a span (guard_pages.h); its holder: */
  uint32_t
      guarded; /* so many bytes at the span's end are no part of it; of a Huge block, in slabs[0]: so many
                       lie between its last page and its guard */
  uint32_t
      stale; /* bit i: slice i of the unit has guards of a former use, which span_guard will see to */
  /* Hardened: the slice was in use before, so that an old pointer may have written to it since its pages went; in a span the first
   * one says it for all. */
  bool was_used;
  bool
      same_guard; /* of a slab: no Large block was in the unit, so a guard in its last slice is a slab's, of one page */
};

_Static_assert(sizeof(struct slab) == 64, "a descriptor is one cache line");

/* What is known of a unit. Lives for ever once made (type-stable), is reused through a free list. */
struct superslab {
  char *base;             /* once per use: first byte, a multiple of UNIT_BYTES */
  struct superslab *next; /* superslab_lock: neighbour in the list */
  union {
    struct superslab *prev;   /* SuperSlab; superslab_lock: the other neighbour */
    struct huge_group *group; /* huge; once: where its descriptor lies (huge_descriptor.c) */
  };
  uint32_t free_mask;      /* superslab_lock: bit i: slice i is free */
  uint32_t dirty_mask;     /* superslab_lock: bit i: slice i may hold something but zeros */
  uint8_t list;            /* superslab_lock: which list (lists.h) */
  bool explicit_pages : 1; /* once per use: of the kernel's reserved pool of huge pages */
  bool fenced : 1;         /* once per use: see guard_pages.h; hardened */
  uint8_t node : 6;        /* once per use: where its memory is, as far as known (node.h) */
  uint8_t
      era; /* superslab_lock: of the lists it is in; of another: in none, see superslab_fork_child */
  uint32_t huge_units; /* once per use: 0 for a SuperSlab, else units of a huge block */
  union {
    size_t huge_usable; /* huge: bytes the program may use; only its holder changes it */
    struct {            /* SuperSlab; superslab_lock: */
      uint32_t ends;    /* bit i: a Large span ended in slice i */
      uint32_t guards;  /* bit i: slice i is free and has guards of its last use; hardened */
    };
  };
  _Atomic bool huge_pages; /* relaxed: explicit, asked for, or made (collapse.h) */
  _Atomic bool sample; /* superslab_lock, relaxed: is it looked at how much is written? (dense.h) */
  uint8_t age;         /* superslab_lock: scans of the purger since a slice became free */
  _Atomic bool split;  /* a part of its huge page was given back; relaxed: a hint */
  union {
    /* SuperSlab; superslab_lock: bit i: slice i is free and was given back lazily */
    uint32_t lazily_freed_mask;
    uint32_t
        huge_cuts; /* huge: which ends are not mapped; only its holder changes it (huge_cut.h) */
  };
  _Atomic uint8_t *states;            /* hardened: of each block whether it is free (slab/link.h) */
  struct slab slabs[SLICES_PER_UNIT]; /* of a Huge block only the first (descriptor.h) */
};

/* Which of a Huge block's ends are not mapped. */
enum { HUGE_CUT_TAIL = 1, HUGE_CUT_FRONT = 2 };

/* Hardened: the states of a slab are those of its blocks one after the other, from its first slice's on. A slice has as many as the smallest
 * blocks need, and further on, closer together, as many as blocks of 64 bytes need: those of longer blocks are there (map_set_states), four slices to a
 * page. A line more keeps those of neighbours out of the same set of the processor's cache. What a look-up for a short block finds among those
 * of long ones, or behind the last of them, is no state of a short one. */
#define STATES_DENSE ((size_t)(SLICE_BYTES / 16 + 64))
#define STATES_SPARSE_FROM 64u /* bytes of a block */
#define STATES_SPARSE ((size_t)(SLICE_BYTES / STATES_SPARSE_FROM + 64))
#define STATES_BYTES (SLICES_PER_UNIT * (STATES_DENSE + STATES_SPARSE) + STATES_DENSE)
_Static_assert(offsetof(struct superslab, slabs) == 64, "the header is one cache line");

/* --- metadata (meta.c) ------------------------------------------------------------------------ */

/** Zeroed memory that is never given back, for descriptors and heaps. `alignment`: power of two up to
 * 8 KiB. NULL when the OS refuses. */
void *meta_allocate(size_t bytes, size_t alignment);
uint64_t meta_bytes_used(void);
/* Where it lies, for who reads this process (observe/directory.h): the first chunk, and a list of those that were mapped. */
#define META_FIRST_CHUNK (16 * KIB)
extern char meta_first_chunk[META_FIRST_CHUNK] HAK_HIDDEN;
struct meta_chunk {
  struct meta_chunk *next;
  size_t bytes; /* with this */
};
extern struct meta_chunk *meta_chunks HAK_HIDDEN; /* meta_lock */
extern struct lock meta_lock;
/** In the child of a fork where what meta_lock guards is not whole: leaves what is left of the chunk. */
void meta_forget(void);

/* --- spans (superslab.c, emptied.c) ---------------------------------------------------------------- */

extern struct lock superslab_lock;

HAK_INLINE struct superslab *superslab_of(const struct slab *slab) {
  const struct slab *first = slab - slab->index;
  return (struct superslab *)(uintptr_t)((uintptr_t)first - offsetof(struct superslab, slabs));
}

/** Has it huge pages by now, or will it have them as it is written? A hint. */
HAK_INLINE bool superslab_has_huge_pages(const struct superslab *superslab) {
  return atomic_load_explicit(&superslab->huge_pages, memory_order_relaxed);
}

/** What its units are at the start of a use. */
HAK_INLINE void superslab_begin_pages(struct superslab *superslab, bool explicit_pages) {
  superslab->explicit_pages = explicit_pages;
  atomic_store_explicit(&superslab->huge_pages, explicit_pages, memory_order_relaxed);
}

/** First byte of the slice. */
HAK_INLINE char *slab_base(const struct slab *slab) {
  return superslab_of(slab)->base + ((size_t)slab->index << SLICE_SHIFT);
}

/** Bytes of a span that may be used. */
HAK_INLINE size_t span_usable(const struct slab *span) {
  return ((size_t)span->slices << SLICE_SHIFT) - (HAK_HARDENED ? span->guarded : 0);
}

/** A span of `slices` (1..32) whose first slice is at a multiple of `alignment` slices (a power of
 * two). `pages`: no huge ones where the process is to be lean.
 * `*zeroed`: its bytes read as zero. All descriptors have index, offset and slices set, kind
 * `kind` and no inbox. NULL when there is no memory. `counted_class`: who asks (observe/counters.h). */
struct slab *span_acquire(unsigned slices, unsigned alignment, enum slab_kind kind,
                          enum span_pages pages, unsigned counted_class, bool *zeroed);
/** Where span_acquire has none: of what there is, without asking the system. Hardened: also in SuperSlabs that are kept apart otherwise, a Large
 * block in one of slabs and a slab in one of Large blocks. A guard is then still behind both, none need be in front of the Large
 * block. */
struct slab *span_acquire_left(unsigned slices, unsigned alignment, enum slab_kind kind,
                               unsigned counted_class, bool *zeroed);
/** Bytes of all spans, those in caches too; relaxed: a hint. */
size_t superslab_bytes_in_use(void);
/** Is some thread with the lock of all SuperSlabs just now? A hint. */
bool superslab_is_busy(void);
/** Gives a span back; `span` is its first descriptor. Keeps errno. The caller holds no lock. */
void span_release(struct slab *span);
/** The same for who holds a heap's lock, without a system call: a SuperSlab that is empty then waits for superslab_settle. */
void span_release_soon(struct slab *span);
/** Makes the system calls that this thread has put off while it held locks: gives up what span_release_soon has emptied, and
 * what was in the warm pool for too long when a unit was taken out. Keeps errno. The caller holds no lock. */
void superslab_settle(void);
/** Has it a SuperSlab to give up? That takes 0.1 ms and more: who empties others under way to an allocation stops, and has room. */
bool superslab_is_unsettled(void);
/** Grows or shrinks a Large span in place to `slices`; false when the neighbours are in use. */
bool span_resize(struct slab *span, unsigned slices);

/* --- huge blocks (huge.c) ------------------------------------------------------------------------- */

/** Where the guard behind a huge block begins, if it has one: so many bytes behind its start. */
HAK_INLINE size_t huge_guard_at(const struct superslab *superslab) {
  return superslab->huge_usable + (HAK_HARDENED ? superslab->slabs[0].guarded : 0);
}
/** Bytes that a huge block can grow to in its units. */
HAK_INLINE size_t huge_room(const struct superslab *superslab) {
  size_t guard = HAK_HARDENED && superslab->fenced ? os_page_size() : 0;
  return ((size_t)superslab->huge_units << UNIT_SHIFT) - guard;
}
/** One block of `bytes` in units of its own, aligned to `alignment` (a power of two). */
struct superslab *huge_acquire(size_t bytes, size_t alignment, bool *zeroed);
/** The same without guards in the hardened variant: where there is no address space for them. */
struct superslab *huge_acquire_unfenced(size_t bytes, size_t alignment, bool *zeroed);
/** Frees the huge block at `base`, whose unit was entered with `superslab`. False when it is not there
 * (any more): of two threads that free it, one gets true. */
bool huge_release(struct superslab *superslab, const char *base);
/** Makes the block at `base` `bytes` long, moving pages rather than copying. Returns where it is then (perhaps
 * another unit), or NULL: it is as it was. */
struct superslab *huge_resize(struct superslab *superslab, const char *base, size_t bytes);
/** Huge blocks in use and their bytes; under superslab_lock. */
void huge_counts(uint64_t *live, uint64_t *bytes);

/** Locks of this room, in the order of the glossary. Their holders wait for no other. */
void superslab_each_lock(lock_visit *visit, void *argument);
void superslab_fork_child(void);

#endif
