/* directory.c - the directory that tools read from outside (observe/directory.h). */
#include "observe/directory.h"

#include "api/totals.h"
#include "hakmem.h"
#include "heap/named.h"
#include "heap/remote.h"
#include "policy/options.h"
#include "sample/guarded.h"
#include "slab/holes.h"
#include "superslab/lists.h"
#include "superslab/warm.h"

/* Sizes of pointers are meant. NOLINTBEGIN(bugprone-sizeof-expression) */
#define FIELD(type, member)                                                                        \
  { (uint16_t) offsetof(type, member), (uint16_t)sizeof(((type *)0)->member) }
#define ARRAY(type, member)                                                                        \
  {                                                                                                \
    (uint32_t) offsetof(type, member), (uint32_t)sizeof(((type *)0)->member[0]),                   \
        (uint32_t)(sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0]))                   \
  }

/* The list leads to arenas. */
#define HEAP_AT(member) (offsetof(struct heap, member) - offsetof(struct heap, arena))
#define HEAP(member)                                                                               \
  { (uint16_t) HEAP_AT(member), (uint16_t)sizeof(((struct heap *)0)->member) }
#define HEAPS(member)                                                                              \
  {                                                                                                \
    (uint32_t) HEAP_AT(member), (uint32_t)sizeof(((struct heap *)0)->member[0]),                   \
        (uint32_t)(sizeof(((struct heap *)0)->member) / sizeof(((struct heap *)0)->member[0]))     \
  }
#define PILES                                                                                      \
  {                                                                                                \
    (uint32_t) HEAP_AT(arena.classes[0].drained), (uint32_t)sizeof(struct arena_class),            \
        CLASS_COUNT                                                                                \
  }

#if HAK_HARDENED
#define LINKS                                                                                      \
  { 0, 0 } /* only the process itself can follow them (slab/link.h) */
#else
#define LINKS FIELD(struct slab, free_list)
#endif

extern const struct directory_layout directory_layout HAK_HIDDEN;
const struct directory_layout directory_layout = {
    .bytes = sizeof(struct directory_layout),
    .release = HAKMEM_VERSION_STRING,
    .variant = HAK_VARIANT_NAME,
    .map = {.unit_shift = UNIT_SHIFT,
            .slice_shift = SLICE_SHIFT,
            .leaf_shift = LEAF_SHIFT,
            .leaf_bytes = sizeof(struct map_leaf),
            .bytes = sizeof(struct map),
            .root = ARRAY(struct map, root),
            .superslabs = ARRAY(struct map_leaf, superslabs),
            .bins = ARRAY(struct map_leaf, inboxes)},
    .superslab = {.bytes = sizeof(struct superslab),
                  .base = FIELD(struct superslab, base),
                  .free_mask = FIELD(struct superslab, free_mask),
                  .huge_units = FIELD(struct superslab, huge_units),
                  .huge_usable = FIELD(struct superslab, huge_usable),
                  .huge_pages = FIELD(struct superslab, huge_pages),
                  .split = FIELD(struct superslab, split),
                  .era = FIELD(struct superslab, era),
                  .slabs = ARRAY(struct superslab, slabs)},
    .slab = {.block_size = FIELD(struct slab, block_size),
             .touched = FIELD(struct slab, touched),
             .free_count = FIELD(struct slab, free_count),
             .carved = FIELD(struct slab, carved),
             .capacity = FIELD(struct slab, capacity),
             .slices = FIELD(struct slab, slices),
             .offset = FIELD(struct slab, offset),
             .kind = FIELD(struct slab, kind),
             .size_class = FIELD(struct slab, size_class),
             .hole_count = FIELD(struct slab, hole_count),
             .holes = FIELD(struct slab, holes),
             .age = FIELD(struct slab, age),
             .kinds = {KIND_FREE, KIND_SLAB, KIND_LARGE, KIND_CACHED, KIND_DECOMMITTING,
                       KIND_DECOMMITTED}},
    .heap = {.bytes = sizeof(struct heap) - offsetof(struct heap, arena),
             .classes = CLASS_COUNT,
             .next = HEAP(arena.next),
             .state = HEAP(arena.state),
             .slab_bytes = HEAP(arena.slab_bytes),
             .inbox_bytes = HEAP(arena.inbox_bytes),
             .counters = HEAP(arena.counters),
             .cached = HEAP(cache.spans.bytes),
             .free_bytes = HEAP(arena.free_bytes),
             .decommitted_bytes = HEAP(arena.decommitted_bytes),
             .thread = HEAP(cache.thread),
             .parked = ARENA_PARKED,
             .samples = ARENA_SAMPLES,
             .bins = HEAPS(cache.bins),
             .outgoing = HEAPS(cache.outgoing),
             .inbox = HEAPS(arena.inboxes),
             .drained = PILES,
             .bin_room = FIELD(struct bin, room),
             .bin_capacity = FIELD(struct bin, capacity),
             .outgoing_owner = FIELD(struct outgoing, owner),
             .outgoing_count = FIELD(struct outgoing, count),
             .outgoing_class = FIELD(struct outgoing, size_class)},
    .batch = {.next_and_count = FIELD(struct batch, next_and_count),
              .count_shift = BATCH_COUNT_SHIFT,
              .most = BATCH_BLOCKS},
    .lists = {.live = FIELD(struct superslab_lists, live),
              .peak = FIELD(struct superslab_lists, peak),
              .slices_in_use = FIELD(struct superslab_lists, slices_in_use),
              .dirty_slices = FIELD(struct superslab_lists, dirty_slices),
              .era = FIELD(struct superslab_lists, era)},
    .units = {.mapped = FIELD(struct unit_counts, mapped),
              .acquired = FIELD(struct unit_counts, acquired),
              .released = FIELD(struct unit_counts, released),
              .fallback_mmap = FIELD(struct unit_counts, fallback_mmap),
              .huge_alloc = FIELD(struct unit_counts, huge_alloc),
              .huge_fail = FIELD(struct unit_counts, huge_fail),
              .decommit_disabled = FIELD(struct unit_counts, decommit_disabled)},
    .pool = {.bytes = sizeof(struct warm_pool),
             .runs = ARRAY(struct warm_pool, runs),
             .count = FIELD(struct warm_pool, count),
             .units = FIELD(struct warm_pool, units),
             .run_base = FIELD(struct warm_run, base),
             .run_units = FIELD(struct warm_run, units)},
    .chains = {.stuck_next = FIELD(struct stuck_run, next),
               .stuck_units = FIELD(struct stuck_run, units),
               .chunk_next = FIELD(struct meta_chunk, next),
               .chunk_bytes = FIELD(struct meta_chunk, bytes),
               .first_chunk_bytes = META_FIRST_CHUNK},
    .os_counts = {.mmap = FIELD(struct os_counts, mmap),
                  .munmap = FIELD(struct os_counts, munmap),
                  .mprotect = FIELD(struct os_counts, mprotect),
                  .madvise = FIELD(struct os_counts, madvise),
                  .mremap = FIELD(struct os_counts, mremap),
                  .failed = FIELD(struct os_counts, failed)},
    .counters = {.classes = COUNTED_CLASSES, .counters = COUNTERS, .supplies = SUPPLIES},
#if !HAK_FAST
    .options = {.count = OPTION_COUNT,
                .stride = sizeof(struct option),
                .name = FIELD(struct option, name),
                .accepted = FIELD(struct option, accepted)},
    .thread = {.heap = FIELD(struct malloc_thread, cache),
               .sample_left = FIELD(struct malloc_thread, sample_left)},
#endif
    .free_blocks = {.free_list = LINKS,
                    .sampled = FIELD(struct slab, sampled),
                    .age_clean = SLAB_CLEAN,
                    .age_huge = SLAB_HUGE},
    .named = {.state = ARENA_NAMED,
              .bytes = sizeof(struct hak_heap),
              .exists = FIELD(struct hak_heap, exists),
              .name = FIELD(struct hak_heap, name),
              .live_blocks = FIELD(struct hak_heap, live_blocks),
              .live_bytes = FIELD(struct hak_heap, live_bytes),
              .peak_bytes = FIELD(struct hak_heap, peak_bytes),
              .span_bytes = FIELD(struct hak_heap, span_bytes),
              .limit = FIELD(struct hak_heap, limit),
              .refused = FIELD(struct hak_heap, refused)},
    .blocks = {.bin_head = FIELD(struct bin, head),
               .outgoing_head = FIELD(struct outgoing, head),
               .batch_rest = FIELD(struct batch, rest),
#if HAK_HARDENED
               .states = ARRAY(struct map_leaf, states),
               .state_bytes = LINK_STEP_FAR,
               .state_each = ONE_SLICE_BLOCK_MAX,
               .state_free = STATE_FREE,
               .state_live = STATE_LIVE
#endif
    },
#if !HAK_FAST
    .guarded = {.count = GUARDED_SLOTS_MOST,
                .stride = sizeof(struct guarded_slot),
                .state = FIELD(struct guarded_slot, state),
                .size = FIELD(struct guarded_slot, size),
                .block = FIELD(struct guarded_slot, block),
                .allocated = FIELD(struct guarded_slot, allocated),
                .freed = FIELD(struct guarded_slot, freed),
                .thread = FIELD(struct guarded_event, thread),
                .depth = FIELD(struct guarded_event, depth),
                .addresses = ARRAY(struct guarded_event, addresses)},
#endif
};
/* NOLINTEND(bugprone-sizeof-expression) */

#if HAK_FAST
#define SAMPLES                                                                                    \
  ".quad 0\n"                                                                                      \
  ".quad 0\n"                                                                                      \
  ".quad 0\n"                                                                                      \
  ".quad 0\n"
#define OPTION_TABLES                                                                              \
  ".quad 0\n"                                                                                      \
  ".quad 0\n"
#define GUARDED OPTION_TABLES
#else
#define GUARDED PLACE(guarded_pages) PLACE(guarded_slots)
#define OPTION_TABLES PLACE(option_values) PLACE(option_table)
#define SAMPLES PLACE(samples) PLACE(requests) PLACE(cache_none) PLACE(option_sources)
#endif

/* In assembler, since a difference of two addresses is no constant of C: it needs no relocation, while a table of pointers
 * would give every process a page of its own. Retained where the linker drops what nobody refers to. */
#define PLACE(symbol) ".quad " #symbol " - " DIRECTORY_SYMBOL "\n"
__asm__(".pushsection " DIRECTORY_SECTION ",\"aR\",%progbits\n"
        ".balign 8\n"
        ".globl " DIRECTORY_SYMBOL "\n"
        ".type " DIRECTORY_SYMBOL ",%object\n" DIRECTORY_SYMBOL ":\n"
        ".ascii \"" DIRECTORY_MAGIC "\"\n"
        ".long 1\n" /* DIRECTORY_VERSION */
        ".long 1f - " DIRECTORY_SYMBOL "\n"
        /* in the order of struct directory */
        PLACE(directory_layout) PLACE(map) PLACE(arena_all) PLACE(superslab_lists)
            PLACE(unit_counts) PLACE(unit_pool) PLACE(unit_stuck) PLACE(meta_chunks)
                PLACE(meta_first_chunk) PLACE(os_counts) PLACE(counters_shared)
                    PLACE(counters_supplied) PLACE(heap_started)
                        OPTION_TABLES SAMPLES PLACE(absent_lost) GUARDED
        "1:\n"
        ".size " DIRECTORY_SYMBOL ", 1b - " DIRECTORY_SYMBOL "\n"
        ".popsection\n");
_Static_assert(DIRECTORY_VERSION == 1, "the number above");
