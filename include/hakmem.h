/* hakmem.h - the public interface of the hakmem memory allocator.
 *
 * A program does not need this header: preloading or linking the library replaces malloc, free and
 * their family. It is for programs that want hakmem under its own prefix, or want to ask it things.
 *
 * Every function is safe to call from any thread at any time after the library is loaded, from
 * constructors, destructors and thread-local destructors too. None is async-signal-safe. All sizes
 * and alignments are in bytes.
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 2
#define HAKMEM_VERSION_PATCH 0
#define HAKMEM_VERSION_STRING "0.2.0"

#if defined(__GNUC__) || defined(__clang__)
#define HAK_API __attribute__((visibility("default")))
#define HAK_ATTR_MALLOC __attribute__((malloc, warn_unused_result))
#define HAK_ATTR_SIZE(n) __attribute__((alloc_size(n)))
#define HAK_ATTR_SIZE2(n, m) __attribute__((alloc_size(n, m)))
#define HAK_ATTR_ALIGN(n) __attribute__((alloc_align(n)))
#else
#define HAK_API
#define HAK_ATTR_MALLOC
#define HAK_ATTR_SIZE(n)
#define HAK_ATTR_SIZE2(n, m)
#define HAK_ATTR_ALIGN(n)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- the malloc family under our prefix -------------------------------------------------------
 *
 * Same contracts as the C and POSIX functions of the same name. On failure they return NULL and set
 * errno to ENOMEM (EINVAL for a bad alignment); hak_free and its kin keep errno. Blocks are aligned
 * to 16. A request above PTRDIFF_MAX fails.
 */

/** At least `size` bytes; size 0 gives a unique block that may be freed. */
HAK_API void *hak_malloc(size_t size) HAK_ATTR_MALLOC HAK_ATTR_SIZE(1);

/** `count * size` zeroed bytes; an overflow of the product fails with ENOMEM. */
HAK_API void *hak_calloc(size_t count, size_t size) HAK_ATTR_MALLOC HAK_ATTR_SIZE2(1, 2);

/** Resizes `ptr` (NULL: allocates). On failure `ptr` stays valid and unchanged. Size 0 frees `ptr`
 * and returns NULL, as glibc does. Shrinking never fails. */
HAK_API void *hak_realloc(void *ptr, size_t size) HAK_ATTR_SIZE(2);

/** hak_realloc(ptr, count * size); an overflow of the product fails with ENOMEM. */
HAK_API void *hak_reallocarray(void *ptr, size_t count, size_t size) HAK_ATTR_SIZE2(2, 3);

/** Frees a block of this allocator; NULL is allowed. Keeps errno. A pointer that is not a live block ends the program with a
 * line on stderr: always in the hardened build. The others end it where that costs nothing, so they do not notice a second free of
 * a small block at once. */
HAK_API void hak_free(void *ptr);

/** hak_free for a block whose requested size is known (C23 free_sized). */
HAK_API void hak_free_sized(void *ptr, size_t size);

/** hak_free for a block of hak_aligned_alloc(alignment, size) (C23 free_aligned_sized). */
HAK_API void hak_free_aligned_sized(void *ptr, size_t alignment, size_t size);

/** `size` bytes at a multiple of `alignment`, a power of two (else EINVAL) up to 16 GiB (above: ENOMEM). `size` need
 * not be a multiple of `alignment`. */
HAK_API void *hak_aligned_alloc(size_t alignment, size_t size) HAK_ATTR_MALLOC HAK_ATTR_SIZE(2)
    HAK_ATTR_ALIGN(1);

/** POSIX: 0, EINVAL (alignment not a power of two multiple of sizeof(void *)) or ENOMEM. errno is
 * kept, but that ENOMEM is there, too, as with glibc; *out is written only on success. */
HAK_API int hak_posix_memalign(void **out, size_t alignment, size_t size);

/** Bytes the block really holds (>= the size asked for); 0 for NULL. */
HAK_API size_t hak_usable_size(const void *ptr);

/* --- beyond malloc ------------------------------------------------------------------------- */

/** True when `ptr` points into memory of this allocator; never reads through `ptr`. */
HAK_API bool hak_owns(const void *ptr);

/** Bytes from `ptr` to the end of the live block that it lies in, which may be anywhere in the block: what a copy to there may write. 0: no block
 * lives there, or it has been passed (a free block, the rest of a page or slab). SIZE_MAX: no memory of this allocator's, of which nothing is known; a
 * block above 1 MiB that was freed is such memory. The end is that of hak_usable_size; of the few small blocks that the sampler follows it may lie
 * behind that, while other threads allocate such. That a small block is free is known in the hardened build alone. Constant time, waits for no lock, never
 * reads through `ptr`. */
HAK_API size_t hak_room(const void *ptr);

/** Gives unused memory back to the operating system: the calling thread's caches, those of ended
 * threads, and the warm pool. Returns the bytes unmapped or decommitted. */
HAK_API size_t hak_purge(void);

/** For programs that move their blocks together after a peak (redis and valkey call it active defragmentation): is `ptr` one
 * of few blocks in its slab, so that memory goes back when it is moved? Moving is
 *
 *     void *moved = hak_malloc(size);
 *     memcpy(moved, ptr, size);
 *     hak_free_moved(ptr);
 *
 * True when the slab has at least about as many free blocks as the slabs of its size class have on average (seven eighths of it), and
 * the others have room for all blocks that are in use in this one. So it turns false by itself once blocks lie
 * close. False for blocks that have pages of their own (from 8 KiB on with pages of 4 KiB), for the few that the sampler
 * follows, for NULL and for memory that is not hakmem's. `ptr` is the start of a live block. Constant time, takes no lock: other threads may change what was
 * true when it was asked. */
HAK_API bool hak_should_move(const void *ptr);

/** hak_free for a block that was moved: its place is given back to the slab, past the thread's cache, from which hak_malloc would
 * hand it out next. Takes a lock, and longer than hak_free. */
HAK_API void hak_free_moved(void *ptr);

/* --- heaps of their own --------------------------------------------------------------------------
 *
 * A heap holds blocks that belong together: they have a name and a limit, can be counted and walked, and are gone all at once when the
 * heap is destroyed. Any thread may allocate from any heap, and free or resize its blocks with hak_free, hak_realloc and
 * the rest of the family (so with free() where hakmem is the program's malloc); one that is resized stays in its heap. A
 * call takes the heap's lock: hak_malloc is for memory that needs none of this.
 *
 * Blocks of heaps are not sampled: hakmem prof shows none of them. In a process with HAKMEM_FORCE_LIBC_ALLOC=1 no heap can be made. */
typedef struct hak_heap hak_heap;

/** A new heap. `name` (NULL: none) is copied, up to 63 bytes. `limit`: bytes that its live blocks may have together, as
 * hak_usable_size tells them; 0: no limit. NULL with ENOMEM: no memory, 65,535 heaps exist, or no heap can be made. */
HAK_API hak_heap *hak_heap_create(const char *name, size_t limit);

/** Frees all blocks of the heap and the heap itself; NULL is allowed. Any thread may do so, once no other uses the heap or its
 * blocks any more. Takes about as long as its memory has slabs (64 KiB and more) and large blocks, however many
 * small blocks these hold. */
HAK_API void hak_heap_destroy(hak_heap *heap);

/** As hak_malloc, from the heap. NULL with ENOMEM also where the block would be beyond the limit. */
HAK_API void *hak_heap_malloc(hak_heap *heap, size_t size) HAK_ATTR_MALLOC HAK_ATTR_SIZE(2);

/** As hak_calloc, from the heap. */
HAK_API void *hak_heap_calloc(hak_heap *heap, size_t count, size_t size) HAK_ATTR_MALLOC
    HAK_ATTR_SIZE2(2, 3);

/** As hak_aligned_alloc, from the heap. */
HAK_API void *hak_heap_aligned_alloc(hak_heap *heap, size_t alignment, size_t size) HAK_ATTR_MALLOC
    HAK_ATTR_SIZE(3) HAK_ATTR_ALIGN(2);

/** As hak_realloc of a block of any heap, or of none; where `ptr` is NULL the new block comes from `heap`. */
HAK_API void *hak_heap_realloc(hak_heap *heap, void *ptr, size_t size) HAK_ATTR_SIZE(3);

/** The heap that a live block is in; NULL: in none. Never reads through `ptr`. */
HAK_API hak_heap *hak_heap_of(const void *ptr);

/** The heap's name, "" if it has none. Stays valid as long as the heap. */
HAK_API const char *hak_heap_name(const hak_heap *heap);

/** Of one heap, all of one moment. Set `size` to sizeof(struct hak_heap_stats) before the call; fields that the library does not
 * know stay as they are. */
struct hak_heap_stats {
  uint32_t size;        /* in: sizeof(struct hak_heap_stats) */
  uint32_t version;     /* out: 1 */
  uint64_t live_blocks; /* allocated and not freed */
  uint64_t live_bytes;  /* of these, usable bytes */
  uint64_t peak_bytes;  /* most that live_bytes ever was */
  uint64_t
      held_bytes;   /* of the memory that the heap has for them, slabs with free blocks included */
  uint64_t limit;   /* 0: none */
  uint64_t refused; /* allocations that would have been beyond it */
};

/** 0, or EINVAL when `stats` is NULL or `stats->size` has no room for more than size and version. */
HAK_API int hak_heap_stats_get(hak_heap *heap, struct hak_heap_stats *stats);

/** Calls `visit` for each live block of the heap, with its usable bytes, until it returns false; in no particular order. `visit` may free the
 * block that it is given, and use other heaps and malloc. It must not free other blocks of this heap, nor allocate from it, resize in it or destroy it (the
 * program is ended with a message). Other threads that use the heap wait until the walk has ended: so two threads that walk must not use each
 * other's heap in `visit`. A Large or Huge block that another thread resizes just now is left out. False: `visit` has returned false. */
HAK_API bool hak_heap_walk(hak_heap *heap,
                           bool (*visit)(void *block, size_t usable, void *argument),
                           void *argument);

/** Calls `visit` for each heap that exists, until it returns false. A heap that another thread destroys meanwhile must not be used. */
HAK_API bool hak_heap_each(bool (*visit)(hak_heap *heap, void *argument), void *argument);

/* --- what it says of itself ------------------------------------------------------------------------ */

/** HAKMEM_VERSION_STRING of the library in use. */
HAK_API const char *hak_version(void);

/** "standard", "fast", "observe", "hardened", "asan" or "tsan": how the library was built. */
HAK_API const char *hak_variant(void);

/** Totals since start. Set `size` to sizeof(struct hak_stats) before the call; fields that the
 * library does not know of stay as they are. Taken without stopping other threads: each figure is
 * right by itself, sums over several may be a moment apart. */
struct hak_stats {
  uint32_t size;            /* in: sizeof(struct hak_stats) */
  uint32_t version;         /* out: 1 */
  uint64_t superslabs_live; /* 2 MiB units that hold at least one slab or span */
  uint64_t superslabs_warm; /* 2 MiB units kept empty for reuse */
  uint64_t superslabs_peak; /* most units that were ever live at once */
  uint64_t huge_live;       /* blocks of the Huge tier in use */
  uint64_t huge_bytes;      /* bytes mapped for them */
  uint64_t heaps_active;    /* thread heaps with a living thread */
  uint64_t heaps_parked;    /* thread heaps of ended threads, waiting for a new one */
  uint64_t os_mmap;         /* system calls made, by kind */
  uint64_t os_munmap;
  uint64_t os_mprotect;
  uint64_t os_madvise;
  uint64_t os_mremap;
  uint64_t os_failed;      /* of these, refused by the kernel */
  uint64_t bytes_mapped;   /* bytes of address space held for blocks, warm units included */
  uint64_t bytes_slab;     /* bytes of slabs and spans handed out inside SuperSlabs */
  uint64_t bytes_metadata; /* bytes of metadata in use */
};

/** Fills `*stats`. Returns 0, or EINVAL when stats is NULL or stats->size is too small. */
HAK_API int hak_stats_get(struct hak_stats *stats);

/** Where memory is now, in bytes. Set `size` to sizeof(struct hak_memory_stats) before the call. What is
 * resident beyond the sum of live to metadata is the program's own: code, stacks, other mappings; or less, where
 * blocks were never written to. */
struct hak_memory_stats {
  uint32_t size;     /* in: sizeof(struct hak_memory_stats) */
  uint32_t version;  /* out: 1 */
  uint64_t resident; /* of the whole process, as the system counts it */
  uint64_t live;     /* blocks with the program */
  uint64_t pinned;   /* free blocks whose pages stay because of live ones in the same page */
  uint64_t bins;     /* free blocks that threads keep for their next allocations */
  uint64_t cached;   /* empty memory kept for a while: see HAKMEM_WARM_POOL_DECAY_MS */
  uint64_t metadata; /* descriptors and heaps */
  uint64_t given;    /* pages given back to the system inside memory that is held */
};

/** Fills `*stats`: walks all SuperSlabs, so its time is proportional to their number, that is, to the memory
 * held for blocks of slabs and spans. Returns 0, or EINVAL when stats is NULL or stats->size is too small. */
HAK_API int hak_memory_stats_get(struct hak_memory_stats *stats);

/** Figures of one size class, or of all blocks of the Large or the Huge tier, since start and over all
 * threads, ended ones too. Set `size` to sizeof(struct hak_class_stats) before the call. Taken as hak_stats
 * is. All of alloc to free_remote are numbers of blocks and stay 0 unless `counting`; the last three are
 * numbers of slabs (Large: spans, Huge: blocks) and are always there, but in the fast variant. */
struct hak_class_stats {
  uint32_t size;       /* in: sizeof(struct hak_class_stats) */
  uint32_t version;    /* out: 1 */
  uint32_t tier;       /* out: enum hak_tier */
  uint32_t counting;   /* 1: HAKMEM_STATS, HAKMEM_TINY_HEAP_STATS or _FRONT_CLASS_STATS is set */
  uint64_t block_size; /* bytes of a block; 0 for Large and Huge */
  uint64_t alloc;      /* handed out: fast + slow. realloc counts where it moves a block */
  uint64_t free;       /* taken back: free_fast_local + free_remote */
  uint64_t fast;       /* of alloc: from the thread's own list, without a lock */
  uint64_t slow;       /* of alloc: the list was empty and had to be filled; all Large and Huge */
  uint64_t free_fast_local; /* of free: by the thread that owns the slab; all Large and Huge */
  uint64_t free_remote;     /* of free: by another thread */
  uint64_t warm_hits;       /* slabs had without asking the operating system */
  uint64_t warm_misses;     /* the operating system was asked for memory for them */
  uint64_t warm_prefilled;  /* memory put aside for them ahead of need */
};
enum hak_tier { HAK_TIER_SMALL, HAK_TIER_LARGE, HAK_TIER_HUGE };

/** Fills `*stats` for the class of that number: size classes from 0 by ascending size, then Large, then Huge.
 * Returns 0, or EINVAL when there is no such class (so that a loop from 0 ends there), stats is NULL or
 * stats->size is too small. */
HAK_API int hak_class_stats_get(unsigned number, struct hak_class_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* HAKMEM_H */
