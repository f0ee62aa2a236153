/* directory.h - where a tool finds what it needs in the memory of a process that does nothing for it.
 *
 * The symbol `hakmem_directory`, in a section of its own (so that a stripped static program has it, too), says how far
 * from itself each table lies. Distances are the linker's work: nothing is written at start, and no page of it is touched
 * until somebody reads it. The layout beside it says where the fields of the structures are, so that a tool reads a library
 * of another build.
 *
 * What a reader may rely on: heaps, descriptors of units, leaves of the map and chunks of metadata are never freed, and
 * their lists only grow at the front (a fork's child may begin with fewer). Everything else may change while it is read: each
 * figure is one aligned word, sums over several may be a moment apart.
 *
 * Later versions only add at the ends; a reader takes what lies beyond `bytes` for absent. `version` changes when a field
 * means something else.
 */
#ifndef HAK_OBSERVE_DIRECTORY_H
#define HAK_OBSERVE_DIRECTORY_H

#include <stdint.h>

#define DIRECTORY_SYMBOL "hakmem_directory"
#define DIRECTORY_SECTION ".hakmem_directory"
#define DIRECTORY_MAGIC "hakmem directory" /* 16 bytes, without an end */
#define DIRECTORY_VERSION 1

/* From the start of the directory, in bytes; 0: there is no such thing in this build. */
typedef int64_t directory_distance;

/* Written by the assembler (api/directory.c), in this order. */
struct directory {
  char magic[16];
  uint32_t version, bytes;
  directory_distance layout;            /* struct directory_layout */
  directory_distance map;               /* the address map */
  directory_distance heaps;             /* pointer to the first heap */
  directory_distance lists;             /* figures of SuperSlabs */
  directory_distance units;             /* counts of units */
  directory_distance pool;              /* the warm pool */
  directory_distance stuck;             /* pointer to the first run that could not be unmapped */
  directory_distance chunks;            /* pointer to the first chunk of metadata that was mapped */
  directory_distance first_chunk;       /* the one that was not */
  directory_distance os_counts;         /* system calls */
  directory_distance counters_shared;   /* counters of threads without a heap */
  directory_distance counters_supplied; /* where slabs, Large and Huge blocks came from */
  directory_distance started; /* a byte: 0 before the first malloc, when options are not read yet */
  directory_distance option_values;
  directory_distance option_table;
  directory_distance samples;  /* observe/samples.h */
  directory_distance requests; /* observe/requests.h */
  directory_distance
      heap_none; /* the heap of threads that have none, and of those on the forced slow path in `thread.heap` */
  directory_distance option_sources; /* a byte for each option: policy/sources.h */
  directory_distance lost;    /* bytes of free blocks that were lost at forks: heap/absent.h */
  directory_distance guarded; /* where guarded samples lie: two words, address and bytes */
  directory_distance guarded_slots;
};

struct directory_field {
  uint16_t at, bytes; /* bytes 0: there is no such field */
};

/* An array in a structure. */
struct directory_array {
  uint32_t at, stride, count;
};

struct directory_layout {
  uint32_t bytes, unused;
  char release[24], variant[16];

  struct {
    uint32_t unit_shift, slice_shift, leaf_shift, leaf_bytes, bytes;
    struct directory_array root;       /* distances of leaves from the map, in words of 8 bytes */
    struct directory_array superslabs; /* in a leaf: descriptors by unit */
    struct directory_array bins;       /* in a leaf: owners' bins by slice */
  } map;
  struct {
    uint32_t bytes;
    struct directory_field base, free_mask, huge_units, huge_usable, huge_pages, split, era;
    struct directory_array slabs;
  } superslab;
  struct {
    struct directory_field block_size, touched, free_count, carved, capacity, slices, offset, kind,
        size_class, hole_count, holes, age;
    uint8_t
        kinds[6]; /* values of `kind`: free, slab, Large, cached, being given back, given back */
  } slab;
  struct {
    uint32_t bytes, classes;
    struct directory_field next, state, slab_bytes, inbox_bytes, counters, more_outgoing, cached,
        free_bytes, decommitted_bytes,
        thread;               /* address of a thread-local variable of its thread */
    uint32_t parked, samples; /* values of `state`: its thread has ended; it is the sampler's */
    struct directory_array bins, outgoing, inbox, drained;
    uint32_t more_outgoing_count;
    struct directory_field bin_room, bin_capacity, outgoing_owner, outgoing_count, outgoing_class;
  } heap;
  struct
  { /* a batch of blocks sent: the next one's address in the lower bits of a word, their number in the upper ones */
    struct directory_field next_and_count;
    uint32_t count_shift, most; /* at most so many blocks */
  } batch;
  struct {
    struct directory_field live, peak, slices_in_use, dirty_slices, era;
  } lists;
  struct {
    struct directory_field mapped, acquired, released, fallback_mmap, huge_alloc, huge_fail,
        decommit_disabled;
  } units;
  struct {
    uint32_t bytes;
    struct directory_array runs;
    struct directory_field count, units, run_base, run_units;
  } pool;
  struct {
    struct directory_field stuck_next, stuck_units, chunk_next, chunk_bytes;
    uint32_t first_chunk_bytes;
  } chains;
  struct {
    struct directory_field mmap, munmap, mprotect, madvise, mremap, failed;
  } os_counts;
  struct
  { /* counters_shared and a heap's: [classes][counters] words; counters_supplied: [classes][supplies] */
    uint32_t classes, counters, supplies;
  } counters;
  struct {
    uint32_t count, stride; /* of the table; values are int32_t */
    struct directory_field name, accepted;
  } options;
  struct
  { /* of a slab: its first free block, of which the first word leads to the next; its heap is no thread's but the sampler's */
    struct directory_field free_list, sampled;
    uint32_t age_clean,
        age_huge; /* values of its age: nothing more is to be given back; too little of a huge page */
  } free_blocks;
  struct { /* what heap.thread leads to */
    struct directory_field heap, sample_left;
  } thread;
  struct
  { /* a heap that a program has made: a heap of this `state`, in a structure of so many bytes */
    uint32_t state, bytes;
    struct directory_field exists, name, live_blocks, live_bytes, peak_bytes, span_bytes, limit,
        refused;
  } named;
  struct { /* a heap of this `state` has blocks for all threads; 0: there are none */
    uint32_t state;
  } common;
  /* Where lists of free blocks begin: in a bin, a slot of `outgoing`, the first block of a batch. Hardened: a byte for each block says what it is.
   * `states`, in a leaf of the map, by slice: the address of these bytes. Blocks of at most `state_each` bytes have theirs by their number in the
   * slab, longer ones by their offset in the slice / state_bytes. */
  struct {
    struct directory_field bin_head, outgoing_head, batch_rest;
    struct directory_array states;
    uint32_t state_bytes, state_each;
    uint32_t state_free, state_live; /* values of a byte: these, plus the class */
  } blocks;
  /* A guarded sample: `state` is 2 once it was freed. Events have a thread, and return addresses, innermost first. */
  struct {
    uint32_t count, stride;
    struct directory_field state, size, block;
    struct directory_field allocated, freed; /* events */
    struct directory_field thread, depth;    /* of an event */
    struct directory_array addresses;
  } guarded;
};

#endif
