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

/** Bytes from which on new SuperSlabs may use transparent huge pages: those that the heap owns for its slabs,
 * those that the process has mapped for large blocks. Below, the untouched rest of a 2 MiB page weighs more than
 * the faults it saves: 85% more memory at 2 MiB, 1.6% at 100 MiB (docs/decisions/0004). */
#define HUGE_PAGES_FROM (16 * MIB)

/* What a span may lie in. */
enum span_pages {
  PAGES_SMALL,
  PAGES_HUGE, /* a SuperSlab that has to be made for it may use transparent huge pages */
  PAGES_FRESH /* the same, and it is rather made than one used whose huge page was broken up */
};

enum slab_kind {
  KIND_FREE = 0,   /* slice is not handed out */
  KIND_SLAB = 1,   /* blocks of a size class */
  KIND_LARGE = 2,  /* one Large block */
  KIND_CACHED = 3, /* a freed Large block in some thread's span cache */
  KIND_GIVING = 4, /* the same, its pages are being given back: not to be taken now */
  KIND_GIVEN = 5,  /* the same, without pages; or on its way back to its SuperSlab */
};

/* Which list of its heap a slab is in. */
enum slab_list {
  LIST_NONE,
  LIST_PARTIAL, /* has free blocks, or memory that is no blocks yet */
  LIST_GIVEN,   /* all that can be had from it was given back (slab/holes.h) */
  LIST_FULL,    /* of a named heap: nothing can be had from it (heap/named.h) */
  LIST_NAMED    /* a named heap's Large or Huge block; the heap's number is in `capacity` */
};

struct bin; /* heap/heap.h: where the owner's freed blocks of this class go */

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
  uint8_t age;    /* owner: looks of the release engine since a block went in or out; SLAB_CLEAN */
  uint16_t holes; /* owner: bit i: page i of this slice is given back; in every slice of the slab */
  _Atomic uint16_t hole_count; /* owner (statistics read it): free blocks that touch such a page */
  bool tail_given;             /* owner: the pages behind the last block were given back */
  _Atomic uint8_t
      sampled; /* 1: a slab of the sampler's, or a Large or Huge block that is a sample (of a Huge one: in
                              slabs[0]); 0 in what is free. relaxed */
  /* Hardened, first descriptor of a span (guard_pages.h); its holder: */
  uint32_t guarded; /* so many bytes at the span's end are no part of it */
  uint32_t
      stale; /* bit i: slice i of the unit has guards of a former use, which span_guard will see to */
};

_Static_assert(sizeof(struct slab) == 64, "a descriptor is one cache line");

/* What is known of a unit. Lives for ever once made (type-stable), is reused through a free list. */
struct superslab {
  char *base;                    /* once per use: first byte, a multiple of UNIT_BYTES */
  struct superslab *next, *prev; /* superslab_lock: neighbours in the list */
  uint32_t free_mask;            /* superslab_lock: bit i: slice i is free */
  uint32_t dirty_mask;           /* superslab_lock: bit i: slice i may hold something but zeros */
  uint8_t list;                  /* superslab_lock: which list (lists.h) */
  bool pinned;                   /* superslab_lock: is not given up, though it may become empty */
  bool explicit_pages : 1;       /* once per use: of the kernel's reserved pool of huge pages */
  bool fenced : 1;               /* once per use: see guard_pages.h; hardened */
  uint8_t node : 6;              /* once per use: where its memory is, as far as known (node.h) */
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
  bool huge_pages;     /* once per use: explicit, or transparent huge pages are asked for */
  _Atomic bool sample; /* superslab_lock, relaxed: is it looked at how much is written? (whole.h) */
  uint8_t age;         /* superslab_lock: looks of the release engine since a slice became free */
  _Atomic bool split;  /* a part of its huge page was given back; relaxed: a hint */
  uint32_t given_mask; /* superslab_lock: bit i: slice i is free and was given back lazily */
  _Atomic uint8_t
      *states; /* hardened: of each 16 bytes, whether a block starts there (slab/link.h) */
  struct slab slabs[SLICES_PER_UNIT]; /* of a Huge block only the first (descriptor.h) */
};

#define STATE_BYTES 16u
_Static_assert(offsetof(struct superslab, slabs) == 64, "the header is one cache line");

/* --- address map: pointer -> bin, pointer -> superslab (map.c) -------------------------------------- */

/* Two levels. A leaf stands for 4 GiB of addresses and has these tables:
 *
 * `bins`, by slice: the bin that a block of that slice goes to when its owner frees it; NULL
 * for a free slice, Large and Huge blocks, and memory that is not ours: free() needs no more
 * than this entry, and 64 bytes of the table stand for 512 KiB of blocks (docs/decisions/0007). Written under
 * the owner's lock when a slab is made, adopted or released. relaxed everywhere: it is a hint where
 * to put the block, and a block that lands with a former owner is still in exactly one place
 * (heap/remote.c).
 *
 * `superslabs`, by unit: its descriptor; NULL: not ours.
 *
 * `states`, by unit, hardened: where a SuperSlab's states are, less the unit's address / STATE_BYTES. Those of one that is gone stay.
 *
 * `places`, by unit: how it is mapped (places.h).
 *
 * map.root says where the leaf of each 4 GiB is: its distance from map.none in entries of 8 bytes. Where there is none
 * yet it is 0, which leads to map.none, whose entries are NULL for ever. So nothing has to be made before the first
 * look-up, and a look-up tests for nothing but addresses beyond the root (docs/decisions/0017). */
#define LEAF_SHIFT 32
#define LEAF_SLICES (1u << (LEAF_SHIFT - SLICE_SHIFT))
#define LEAF_UNITS (1u << (LEAF_SHIFT - UNIT_SHIFT))

struct map_leaf {
  _Atomic(struct bin *) bins[LEAF_SLICES];
  _Atomic(struct superslab *) superslabs[LEAF_UNITS];
#if HAK_HARDENED
  _Atomic uintptr_t states[LEAF_UNITS];
#endif
  /* unit_lock; places.c alone: */
  uint8_t places[LEAF_UNITS]; /* enum place of each unit, and whether it is kept */
  uint32_t kept;              /* units that are */
};

/* How a unit is mapped. Neighbours that are mapped alike are one mapping to the kernel. */
enum place {
  PLACE_NONE,  /* it is not */
  PLACE_PLAIN, /* as it came */
  PLACE_HUGE,  /* huge pages are asked for, or explicit */
  PLACE_SMALL, /* none are wanted */
  PLACE_MOVED  /* by mremap */
};

#if defined(__aarch64__)
#define MAP_ADDRESS_BITS 48
#else
#define MAP_ADDRESS_BITS 47
#endif
#define MAP_LEAVES ((uintptr_t)1 << (MAP_ADDRESS_BITS - LEAF_SHIFT))

/* In .bss, on pages of its own: what lies beside it is written by others, and this hardly ever. */
struct map {
  struct map_leaf none;
  _Alignas(4096) _Atomic int64_t root[MAP_LEAVES];
};
extern struct map map HAK_HIDDEN;

/** False for addresses that the root has no entry for: nothing of ours. */
HAK_INLINE bool map_has_entry(const void *pointer) {
  return (uintptr_t)pointer >> LEAF_SHIFT < MAP_LEAVES;
}

/* Adds to `index` what the root says of an address.
 * relaxed: a program that has a pointer got it from the allocating thread by its own synchronisation, which carries root
 * and entry along. For a garbage pointer any answer will do; one that finds a leaf finds it zeroed by the kernel. */
HAK_INLINE uintptr_t map_index(uintptr_t address, uintptr_t index) {
#if defined(__x86_64__)
  /* One instruction instead of three: compilers do not fold an atomic load into the sum. */
  __asm__("addq %1, %0" : "+r"(index) : "m"(map.root[address >> LEAF_SHIFT]) : "cc");
  return index;
#else
  return index +
         (uintptr_t)atomic_load_explicit(&map.root[address >> LEAF_SHIFT], memory_order_relaxed);
#endif
}

/* Address of an entry, `index` entries behind the start of its leaf. In numbers, since the leaf is another object than the map. */
HAK_INLINE uintptr_t map_entry(const void *pointer, uint32_t index) {
  return (uintptr_t)&map + map_index((uintptr_t)pointer, index) * sizeof(void *);
}

HAK_INLINE _Atomic(struct bin *) *map_bin_entry(const void *pointer) {
  return (_Atomic(struct bin *) *)map_entry(pointer, (uint32_t)(uintptr_t)pointer >> SLICE_SHIFT);
}

HAK_INLINE _Atomic(struct superslab *) *map_superslab_entry(const void *pointer) {
  return (_Atomic(struct superslab *) *)map_entry(
      pointer, LEAF_SLICES + ((uint32_t)(uintptr_t)pointer >> UNIT_SHIFT));
}

#if HAK_HARDENED
HAK_INLINE _Atomic uintptr_t *map_states_entry(const void *pointer) {
  return (_Atomic uintptr_t *)map_superslab_entry(pointer) + LEAF_UNITS;
}

/** The state of an address in a slab. relaxed: who has a block got the entry with it. */
HAK_INLINE _Atomic uint8_t *map_state(const void *pointer) {
  uintptr_t states = atomic_load_explicit(map_states_entry(pointer), memory_order_relaxed);
  return (_Atomic uint8_t *)(states + (uintptr_t)pointer / STATE_BYTES);
}
#endif

/** The bin that a block goes to; only where map_has_entry(pointer). */
HAK_INLINE struct bin *map_bin(const void *pointer) {
  return atomic_load_explicit(map_bin_entry(pointer), memory_order_relaxed);
}

/** The unit that `pointer` is in, NULL when it is not ours. */
HAK_INLINE struct superslab *map_superslab(const void *pointer) {
  if (!map_has_entry(pointer)) return NULL;
  /* acquire: pairs with map_set, so that the descriptor is seen filled in even by a guess at an address */
  return atomic_load_explicit(map_superslab_entry(pointer), memory_order_acquire);
}

/** Descriptor of the slice that `pointer` is in, NULL when it is not ours. */
HAK_INLINE struct slab *map_slab(const void *pointer) {
  struct superslab *superslab = map_superslab(pointer);
  if (superslab == NULL) return NULL;
  return &superslab->slabs[((uintptr_t)pointer >> SLICE_SHIFT) % SLICES_PER_UNIT];
}

/** The leaf of an address, NULL: there is none. */
HAK_INLINE struct map_leaf *map_leaf_of(uintptr_t address) {
  if (address >> LEAF_SHIFT >= MAP_LEAVES) return NULL;
  int64_t distance = atomic_load_explicit(&map.root[address >> LEAF_SHIFT],
                                          memory_order_relaxed); /* as map_index */
  uintptr_t leaf = (uintptr_t)&map + (uintptr_t)distance * sizeof(void *);
  return distance != 0 ? (struct map_leaf *)leaf : NULL; // NOLINT(performance-no-int-to-ptr)
}

/** Makes the leaves for units, so that entering them cannot fail. False: there is no memory, or they lie beyond the root. */
bool map_prepare(const char *base, size_t units);
/** Enters units; false, and none is entered, when there is no memory for a leaf, or they lie beyond the root. */
bool map_set(const char *base, size_t units, struct superslab *superslab);
/** Names `bin` in the entries of `slices` slices from `base` on, which lie in units that are entered. */
void map_set_bin(const char *base, size_t slices, struct bin *bin);
/** Takes units out; all their bins are NULL by then. */
void map_clear(const char *base, size_t units);
/** Takes out the one unit that `base` is in if `superslab` is what it was entered with: of several
 * threads that free the same unit, one gets true. */
bool map_claim(const char *base, struct superslab *superslab);

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

/* --- units (unit.c) --------------------------------------------------------------------------- */

struct unit_run {
  char *base;      /* NULL: no memory */
  bool zeroed;     /* reads as zeros */
  bool huge_pages; /* explicit ones */
  size_t used;     /* how many units from the start on hold pages that were in use before */
  bool from_os;    /* the OS was asked, with or without success */
  uint8_t node;    /* where its pages are; of untouched ones, the calling thread's */
};

/** `units` units in a row, aligned to `alignment` bytes (a power of two, at least UNIT_BYTES), from
 * the warm pool or the OS. For one unit no memory is given back meanwhile, which may take long: the caller may hold a heap's lock.
 * What has to go from the pool waits for unit_settle. Units of another node come where the OS refuses. */
struct unit_run unit_acquire(size_t units, size_t alignment);
/** The same with `ahead` more units in front of the aligned place. Nothing is put in them: `used` counts from behind them on. */
struct unit_run unit_acquire_behind(size_t ahead, size_t units, size_t alignment);
/** Gives back what was too old or too much when this thread took units. The caller holds no lock. */
void unit_settle(void);
/** Units of new address space, of which the first `empty` are for pages to be moved into and have none. The others get
 * pages of the warm pool as far as there are, and so need not be zero. With `empty` > 0 none are explicit huge pages. */
struct unit_run unit_reserve(size_t units, size_t empty);
/** After a refusal: would such a run fit if all units of ours were given back? Neither the limit of the address space
 * nor a strict limit of what is committed is asked for by name: the kernel is asked for what would be missing then. */
bool unit_could_fit(size_t units, size_t alignment);
/** Takes them back into the warm pool or gives them to the OS. Never fails, keeps errno. `huge_pages` and `node`: as they came. */
void unit_release(char *base, size_t units, bool huge_pages, unsigned node);
/** Gives them to the OS past the warm pool. */
void unit_give_up(char *base, size_t units, bool huge_pages);
/** Adds `count` units right behind a run of ours, with pages of the warm pool as far as there are; false when that
 * address range is taken. */
bool unit_extend(char *end, size_t count);
/** Gives the whole warm pool to the OS; returns the bytes. */
size_t unit_trim(void);
/** Puts resident units into the warm pool, at the program's start; returns how many. */
size_t unit_prewarm(size_t units);
/** Gives back what is too old; returns the bytes that are still to age. */
size_t unit_age(void);
/** May parts of the units get states of their own, with which the kernel needs a mapping for each? Not above 32 GiB. */
bool unit_may_cut_mappings(void);
/** Asks for huge pages in units of ours (os_advise_huge), or for none (os_advise_small). False: the kernel refuses, or it would make too many mappings
 * (places.h). */
bool unit_advise_huge(char *base, size_t units);
bool unit_advise_small(char *base, size_t units);
/** Bytes in the warm pool; relaxed: a hint. */
size_t unit_warm_bytes(void);
/** Bytes of all units mapped, the warm pool's and those of huge blocks too. */
size_t unit_mapped_bytes(void);
enum unit_move {
  UNIT_MOVED,
  UNIT_STAYS,     /* refused; both are mapped, what is at `to` reads as zeros or as before */
  UNIT_PLACE_LOST /* refused, and nothing is mapped at `to` any more */
};
/** Moves the pages of one unit to the place of another, whose own are lost. */
enum unit_move unit_move(char *from, char *to);
/** Counts units that came (positive) or went by other ways: mremap, a partial unmap. */
void unit_account(ptrdiff_t units);

/* Since the start, but for `mapped`: units mapped now. */
struct unit_counts {
  _Atomic uint64_t mapped, acquired, released, fallback_mmap, huge_alloc, huge_fail;
  _Atomic uint64_t decommit_disabled;
};
extern struct unit_counts unit_counts HAK_HIDDEN;

/* A run that the kernel refused to unmap and that found no place in the pool: its own first bytes
 * hold the link, so that even then nothing is lost. */
struct stuck_run {
  struct stuck_run *next;
  size_t units;
  bool huge_pages;
  uint8_t node;
};
extern struct stuck_run *unit_stuck HAK_HIDDEN; /* unit_lock */
struct warm_pool;
extern struct warm_pool unit_pool HAK_HIDDEN; /* unit_lock */

struct unit_stats {
  uint64_t bytes_mapped, units_warm, acquired, released, fallback_mmap, huge_alloc, huge_fail;
  uint64_t decommit_disabled;
};
void unit_stats_get(struct unit_stats *stats);
extern struct lock unit_lock;
/** In the child of a fork where what unit_lock guards is not whole: leaves the pool's memory where it is. */
void unit_forget(void);

/* --- spans (superslab.c, emptied.c) ---------------------------------------------------------------- */

extern struct lock superslab_lock;

HAK_INLINE struct superslab *superslab_of(const struct slab *slab) {
  const struct slab *first = slab - slab->index;
  return (struct superslab *)(uintptr_t)((uintptr_t)first - offsetof(struct superslab, slabs));
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
 * `kind` and no bin. NULL when there is no memory. `counted_class`: who asks (observe/counters.h). */
struct slab *span_acquire(unsigned slices, unsigned alignment, enum slab_kind kind,
                          enum span_pages pages, unsigned counted_class, bool *zeroed);
/** Is some thread with the lock of all SuperSlabs just now? A hint. */
bool superslab_is_busy(void);
/** Gives a span back; `span` is its first descriptor. Keeps errno. The caller holds no lock. */
void span_release(struct slab *span);
/** The same for who holds a heap's lock, without a system call: a SuperSlab that is empty then waits for superslab_settle. */
void span_release_soon(struct slab *span);
/** Makes the system calls that this thread has put off while it held locks: gives up what span_release_soon has emptied, and
 * what was in the warm pool for too long when a unit was taken out. Keeps errno. The caller holds no lock. */
void superslab_settle(void);
/** Grows or shrinks a Large span in place to `slices`; false when the neighbours are in use. */
bool span_resize(struct slab *span, unsigned slices);

/* --- huge blocks (huge.c) ------------------------------------------------------------------------- */

/** Bytes that a huge block can grow to in its units. */
HAK_INLINE size_t huge_room(const struct superslab *superslab) {
  size_t guard = HAK_HARDENED && superslab->fenced ? os_page_size() : 0;
  return ((size_t)superslab->huge_units << UNIT_SHIFT) - guard;
}
/** One block of `bytes` in units of its own, aligned to `alignment` (a power of two). */
struct superslab *huge_acquire(size_t bytes, size_t alignment, bool *zeroed);
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
