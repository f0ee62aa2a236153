/* calls.h - the functions that are fuzzed, as a table, so that one interpreter serves every build: the library linked in under
 * hak_* (libFuzzer and AFL++ need malloc for themselves), or preloaded over malloc.
 */
#ifndef HAK_FUZZ_CALLS_H
#define HAK_FUZZ_CALLS_H

#include "hakmem.h"

#include <malloc.h>
#include <stdio.h>

/* The same ten functions under two names: malloc and hak_malloc, and so on. */
struct family {
  void *(*malloc)(size_t size);
  void *(*calloc)(size_t count, size_t size);
  void *(*realloc)(void *memory, size_t size);
  void *(*reallocarray)(void *memory, size_t count, size_t size);
  void (*free)(void *memory);
  void (*free_sized)(void *memory, size_t size);
  void (*free_aligned_sized)(void *memory, size_t alignment, size_t size);
  void *(*aligned_alloc)(size_t alignment, size_t size);
  int (*posix_memalign)(void **out, size_t alignment, size_t size);
  size_t (*usable_size)(const void *memory);
};

struct calls {
  struct family families[2]; /* the standard names, hak_* */
  void *(*memalign)(size_t alignment, size_t size);
  void *(*valloc)(size_t size);
  void *(*pvalloc)(size_t size);
  int (*malloc_trim)(size_t pad);
  int (*mallopt)(int parameter, int value);
  int (*malloc_info)(int options, FILE *stream);
  void (*malloc_stats)(void);
  struct mallinfo2 (*mallinfo2)(void);

  /* Below, NULL where another allocator is preloaded, for comparison. */
  bool (*owns)(const void *memory);
  size_t (*purge)(void);
  bool (*should_move)(const void *memory);
  void (*free_moved)(void *memory);
  int (*stats_get)(struct hak_stats *stats);
  int (*memory_stats_get)(struct hak_memory_stats *stats);
  int (*class_stats_get)(unsigned number, struct hak_class_stats *stats);
  hak_heap *(*heap_create)(const char *name, size_t limit);
  void (*heap_destroy)(hak_heap *heap);
  void *(*heap_malloc)(hak_heap *heap, size_t size);
  void *(*heap_calloc)(hak_heap *heap, size_t count, size_t size);
  void *(*heap_aligned_alloc)(hak_heap *heap, size_t alignment, size_t size);
  hak_heap *(*heap_of)(const void *memory);
  int (*heap_stats_get)(hak_heap *heap, struct hak_heap_stats *stats);
  bool (*heap_walk)(hak_heap *heap, bool (*visit)(void *block, size_t usable, void *argument),
                    void *argument);

  /* NULL where no system call can be made to fail (src/os/fault.h). */
  void (*fault_reset)(void);
  void (*fault_fail_nth)(uint64_t n);
  void (*fault_fail_from)(uint64_t n);
  void (*fault_random)(uint32_t seed, uint32_t chance);
  uint64_t (*fault_injected)(void);

  /* The library starts with the first call, so a fork before it is a new start. A preloaded one has started before main. */
  bool starts_late;
};

const struct calls *fuzz_calls(void);

#endif
