/* map.h - the address map: from a pointer to its inbox and to the unit it lies in. */
#ifndef HAK_MAP_H
#define HAK_MAP_H

#include "superslab/superslab.h"

/* Two levels. A leaf stands for 4 GiB of addresses and has these tables:
 *
 * `inboxes`, by slice: the inbox of the slab's class in the arena that owns it (heap/arena.h); NULL
 * for a free slice, Large and Huge blocks, and memory that is not ours. free() needs no more
 * than this entry, and 64 bytes of the table stand for 512 KiB of blocks (docs/decisions/0007). Written under
 * the owner's lock when a slab is made, adopted or released. relaxed everywhere: it is a hint where
 * to put the block, and a block that lands with a former owner is still in exactly one place
 * (heap/remote.c).
 *
 * `superslabs`, by unit: its descriptor; NULL: not ours.
 *
 * `states`, by slice, hardened: where a SuperSlab's states for it are. Those of one that is gone stay.
 *
 * `mappings`, by unit: how it is mapped (mappings.h).
 *
 * map.root says where the leaf of each 4 GiB is: its distance from map.none in entries of 8 bytes. Where there is none
 * yet it is 0, which leads to map.none, whose entries are NULL for ever. So nothing has to be made before the first
 * look-up, and a look-up tests for nothing but addresses beyond the root (docs/decisions/0017). */
#define LEAF_SHIFT 32
#define LEAF_SLICES (1u << (LEAF_SHIFT - SLICE_SHIFT))
#define LEAF_UNITS (1u << (LEAF_SHIFT - UNIT_SHIFT))

struct map_leaf {
  _Atomic(struct inbox *) inboxes[LEAF_SLICES];
  _Atomic(struct superslab *) superslabs[LEAF_UNITS];
#if HAK_HARDENED
  _Atomic(_Atomic uint8_t *) states[LEAF_SLICES];
#endif
  /* unit_lock; mappings.c alone: */
  uint8_t mappings[LEAF_UNITS]; /* enum mapping of each unit, and whether it is kept */
  uint32_t kept;                /* units that are */
};

/* How a unit is mapped. Neighbours that are mapped alike are one mapping to the kernel. */
enum mapping {
  MAPPING_NONE,  /* it is not */
  MAPPING_PLAIN, /* as it came */
  MAPPING_HUGE,  /* huge pages are asked for, or explicit */
  MAPPING_SMALL, /* none are wanted */
  MAPPING_MOVED  /* by mremap */
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

HAK_INLINE _Atomic(struct inbox *) *map_inbox_entry(const void *pointer) {
  return (_Atomic(struct inbox *) *)map_entry(pointer, (uint32_t)(uintptr_t)pointer >> SLICE_SHIFT);
}

HAK_INLINE _Atomic(struct superslab *) *map_superslab_entry(const void *pointer) {
  return (_Atomic(struct superslab *) *)map_entry(
      pointer, LEAF_SLICES + ((uint32_t)(uintptr_t)pointer >> UNIT_SHIFT));
}

#if HAK_HARDENED
HAK_INLINE _Atomic(_Atomic uint8_t *) *map_states_entry(const void *pointer) {
  return (_Atomic(_Atomic uint8_t *) *)map_inbox_entry(pointer) + LEAF_SLICES + LEAF_UNITS;
}

/** The states of the slice that an address in a SuperSlab is in. relaxed: who has a block got the entry with it. */
HAK_INLINE _Atomic uint8_t *map_states(const void *pointer) {
  return atomic_load_explicit(map_states_entry(pointer), memory_order_relaxed);
}
#endif

#if HAK_HARDENED
/** The states of these slices of a SuperSlab are those for short blocks, or `sparse` ones. None is in use. */
void map_set_states(const struct superslab *superslab, unsigned first, unsigned slices,
                    bool sparse);
#else
static inline void map_set_states(const struct superslab *superslab, unsigned first,
                                  unsigned slices, bool sparse) {
  (void)superslab, (void)first, (void)slices, (void)sparse;
}
#endif

/** The inbox of the slab that a block lies in; only where map_has_entry(pointer). */
HAK_INLINE struct inbox *map_inbox(const void *pointer) {
  return atomic_load_explicit(map_inbox_entry(pointer), memory_order_relaxed);
}

/** The unit that `pointer` is in, NULL when it is not ours. */
HAK_INLINE struct superslab *map_superslab(const void *pointer) {
  if (!map_has_entry(pointer)) return NULL;
  /* acquire: pairs with map_set, so that the descriptor is seen filled in even by a guess at an address */
  return atomic_load_explicit(map_superslab_entry(pointer), memory_order_acquire);
}

/** The number of the slice in its unit that an address is in. Not by the descriptor's base, which may be another unit's by now. */
HAK_INLINE size_t unit_slice_of(const void *pointer) {
  return ((uintptr_t)pointer >> SLICE_SHIFT) % SLICES_PER_UNIT;
}

/** Descriptor of the slice that `pointer` is in, NULL when it is not ours. */
HAK_INLINE struct slab *map_slab(const void *pointer) {
  struct superslab *superslab = map_superslab(pointer);
  if (superslab == NULL) return NULL;
  return &superslab->slabs[unit_slice_of(pointer)];
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
/** Leaves made ahead, for as many units wherever they will lie: before a step that cannot be undone. False: no memory, or 60 GiB. */
enum { MAP_SPARES = 16 };
struct map_spares {
  unsigned count;
  char *leaves[MAP_SPARES];
};
bool map_spares_make(struct map_spares *spares, size_t units);
void map_spares_drop(struct map_spares *spares);
/** As map_prepare, with leaves of these: false only beyond the root. */
bool map_prepare_with(const char *base, size_t units, struct map_spares *spares);
/** Enters units; false, and none is entered, when there is no memory for a leaf, or they lie beyond the root. */
bool map_set(const char *base, size_t units, struct superslab *superslab);
/** Names `inbox` in the entries of `slices` slices from `base` on, which lie in units that are entered. */
void map_set_inbox(const char *base, size_t slices, struct inbox *inbox);
/** Takes units out; all their inboxes are NULL by then. */
void map_clear(const char *base, size_t units);
/** Takes out the one unit that `base` is in if `superslab` is what it was entered with: of several
 * threads that free the same unit, one gets true. */
bool map_claim(const char *base, struct superslab *superslab);

#endif
