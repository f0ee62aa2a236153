/* heaps.c - hak_heap_*: heaps of their own. */
#include "api/api.h"
#include "front/named_front.h"
#include "hakmem.h"
#include "release/release.h"

HAK_EXPORT hak_heap *hak_heap_create(const char *name, size_t limit) {
  size_t most = limit == 0 ? SIZE_MAX : limit;
  struct hak_heap *heap = named_create(name, most);
  if (heap == NULL && release_for_refused()) heap = named_create(name, most);
  if (heap == NULL) errno = ENOMEM;
  return heap;
}

HAK_EXPORT void hak_heap_destroy(hak_heap *heap) {
  int saved = errno;
  if (heap != NULL) named_destroy(heap);
  errno = saved;
}

/* HAKMEM_GUARD=full has a canary behind each block. */
static void *allocate(hak_heap *heap, size_t alignment, size_t size, bool zero) {
  if (!full_is_on()) return front_named_allocate(heap, alignment, size, zero);
  size_t room = full_room(size);
  void *block = room != 0 ? front_named_allocate(heap, alignment, room, zero) : NULL;
  if (block != NULL) full_set_end(block, size);
  else errno = ENOMEM;
  return block;
}

HAK_EXPORT void *hak_heap_malloc(hak_heap *heap, size_t size) {
  return allocate(heap, BLOCK_ALIGNMENT, size, false);
}

HAK_EXPORT void *hak_heap_calloc(hak_heap *heap, size_t count, size_t size) {
  size_t bytes;
  if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return api_calloc_overflow();
  return allocate(heap, BLOCK_ALIGNMENT, bytes, true);
}

HAK_EXPORT void *hak_heap_aligned_alloc(hak_heap *heap, size_t alignment, size_t size) {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return NULL;
  }
  if (alignment > ALIGNMENT_MAX || size > PTRDIFF_MAX) return api_calloc_overflow();
  return allocate(heap, alignment, size, false);
}

HAK_EXPORT void *hak_heap_realloc(hak_heap *heap, void *ptr, size_t size) {
  return ptr == NULL ? hak_heap_malloc(heap, size) : api_realloc(ptr, size);
}

HAK_EXPORT hak_heap *hak_heap_of(const void *ptr) {
  struct block block = block_find(ptr);
  return front_named_of(&block, ptr);
}

HAK_EXPORT const char *hak_heap_name(const hak_heap *heap) { return heap->name; }

HAK_EXPORT int hak_heap_stats_get(hak_heap *heap, struct hak_heap_stats *stats) {
  if (stats == NULL) return EINVAL;
  struct named_figures figures;
  named_figures_get(heap, &figures);
  struct hak_heap_stats all = {.version = 1,
                               .live_blocks = figures.live_blocks,
                               .live_bytes = figures.live_bytes,
                               .peak_bytes = figures.peak_bytes,
                               .held_bytes = figures.held_bytes,
                               .limit = figures.limit == SIZE_MAX ? 0 : figures.limit,
                               .refused = figures.refused};
  return api_copy_known(stats, &all, stats->size, sizeof all);
}

struct visitor {
  bool (*visit)(void *block, size_t usable, void *argument);
  void *argument;
};

/* Behind what the program asked for there is what tells of its end. */
static bool visit_in_full(void *block, size_t usable, void *argument) {
  const struct visitor *visitor = argument;
  struct block found = block_find(block);
  usable = full_size_told(&found, block);
  return visitor->visit(block, usable, visitor->argument);
}

HAK_EXPORT bool hak_heap_walk(hak_heap *heap,
                              bool (*visit)(void *block, size_t usable, void *argument),
                              void *argument) {
  struct visitor visitor = {visit, argument};
  return full_is_on() ? named_walk(heap, visit_in_full, &visitor)
                      : named_walk(heap, visit, argument);
}

HAK_EXPORT bool hak_heap_each(bool (*visit)(hak_heap *heap, void *argument), void *argument) {
  unsigned most = named_most();
  for (unsigned number = 1; number <= most; number++) {
    struct hak_heap *heap = named_by_number(number);
    if (heap != NULL && named_exists(heap) && !visit(heap, argument)) return false;
  }
  return true;
}
