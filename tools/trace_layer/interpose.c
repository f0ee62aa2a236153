/* interpose.c - see interpose.h. What is recorded, and when its time stamp is taken, is docs/trace-format.md's. */
#include "interpose.h"

#include "api/api.h"
#include "append.h"
#include "touched.h"

/* Of a block that cannot be, because its size is no number. */
#define NO_SIZE UINT64_MAX

/* Will a block of this size come out of the thread's own bin? Whoever freed it is known to the thread then, and was
 * when an earlier event took its time in order. */
HAK_INLINE bool comes_from_own_bin(size_t size) {
  return size <= TABLE_MAX && malloc_thread.cache->bins[class_for(size)].head != NULL;
}

HAK_INLINE bool goes_to_own_bin(const void *block) {
  return map_has_entry(block) && cache_keeps(cache_place(thread_cache, map_inbox(block)));
}

static HAK_COLD void record_failure(const void *stays, size_t size) {
  struct trace_room room = trace_take(1);
  if (room.events == NULL) return;
  trace_write(room.events, trace_now_in_order(), stays, size, TRACE_FAILED);
  trace_publish(room, 1);
}

HAK_INLINE void record_allocation(void *block, size_t size, uint32_t what, bool own) {
  if (HAK_UNLIKELY(block == NULL)) {
    record_failure(NULL, size);
    return;
  }
  struct trace_room room = trace_take(1);
  if (HAK_UNLIKELY(room.events == NULL)) return;
  if (HAK_UNLIKELY(size >= TOUCHED_MIN)) touched_look_at(block, size, 0);
  trace_write(room.events, own ? trace_now() : trace_now_in_order(), block, size, what);
  trace_publish(room, 1);
}

void *trace_malloc(size_t size) {
  if (HAK_UNLIKELY(!trace_is_on())) return api_malloc(size);
  bool own = comes_from_own_bin(size);
  void *block = api_malloc(size);
  record_allocation(block, size, TRACE_MALLOC, own);
  return block;
}

void *trace_overflow(void) {
  if (trace_is_on()) record_failure(NULL, NO_SIZE);
  return api_calloc_overflow();
}

void *trace_calloc(size_t count, size_t size) {
  size_t bytes;
  if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return trace_overflow();
  if (HAK_UNLIKELY(!trace_is_on())) return api_calloc(count, size);
  bool own = comes_from_own_bin(bytes);
  void *block = api_calloc(count, size);
  record_allocation(block, bytes, TRACE_CALLOC, own);
  return block;
}

/* `alignment` is a power of two if there is a block, and anything if there is none. */
static uint32_t aligned_what(size_t alignment) {
  return TRACE_ALIGNED + (uint32_t)__builtin_ctzll(alignment | UINT64_C(1) << 63) * 256;
}

void *trace_aligned_alloc(size_t alignment, size_t size) {
  void *block = api_aligned_alloc(alignment, size);
  if (trace_is_on()) record_allocation(block, size, aligned_what(alignment), false);
  return block;
}

int trace_posix_memalign(void **out, size_t alignment, size_t size) {
  int error = api_posix_memalign(out, alignment, size);
  if (trace_is_on())
    record_allocation(error == 0 ? *out : NULL, size, aligned_what(alignment), false);
  return error;
}

/* --- free ------------------------------------------------------------------------------------------------------ */

/* The general case; also of realloc to 0. */
static HAK_COLD void record_free(const void *block, size_t size) {
  struct trace_room room = trace_take(2);
  if (room.events == NULL) return;
  unsigned events = 0;
  size_t sampled = touched_may_have(block) ? touched_remove(block) : 0;
  if (sampled != 0) {
    uint64_t now = trace_now_in_order();
    trace_write(&room.events[events++], now, block, touched_pages(block, sampled), TRACE_TOUCHED);
  }
  trace_write(&room.events[events++], trace_now_in_order(), block, size, TRACE_FREE);
  trace_publish(room, events);
}

HAK_INLINE void free_recorded(void *block, size_t size) {
  if (HAK_UNLIKELY(block == NULL || !trace_is_on())) {
    api_free(block);
    return;
  }
  if (HAK_UNLIKELY(touched_may_have(block))) {
    record_free(block, size);
    api_free(block);
    return;
  }
  bool own = goes_to_own_bin(block);
  struct trace_room room = trace_take(1);
  if (HAK_LIKELY(room.events != NULL)) {
    trace_write(room.events, own ? trace_now() : trace_now_in_order(), block, size, TRACE_FREE);
    trace_publish(room, 1);
  }
  api_free(block);
}

void trace_free(void *pointer) { free_recorded(pointer, 0); }

void trace_free_sized(void *pointer, size_t size) { free_recorded(pointer, size); }

/* --- realloc --------------------------------------------------------------------------------------------------- */

static size_t usable_bytes(const void *pointer) {
  struct block block = block_find(pointer);
  return block.wrong == NULL ? block.usable : 0;
}

/* The sample follows a block that grows. What the old block held counts as touched: it was, or copying did it. */
static void follow(void *pointer, void *moved, size_t size, size_t sampled, size_t usable) {
  if (moved == NULL && sampled != 0) touched_enter(pointer, sampled, SIZE_MAX / 2);
  if (moved == NULL || size < TOUCHED_MIN) return;
  if (sampled != 0) touched_enter(moved, size, usable);
  else if (usable != 0 && usable < TOUCHED_MIN) touched_look_at(moved, size, usable);
}

/* The chunk stays in hand meanwhile, so that the two events lie beside each other whatever a signal handler does. */
static void *reallocate(void *pointer, size_t size, struct trace_room room) {
  bool large = size >= TOUCHED_MIN || touched_may_have(pointer);
  size_t sampled = touched_may_have(pointer) ? touched_remove(pointer) : 0;
  size_t usable = large ? usable_bytes(pointer) : 0;
  uint64_t before = trace_now_in_order();
  void *moved = api_realloc(pointer, size);
  if (large) follow(pointer, moved, size, sampled, usable);
  trace_write(&room.events[0], before, pointer, 0, TRACE_REALLOC_OF);
  trace_write(&room.events[1], trace_now_in_order(), moved != NULL ? moved : pointer, size,
              moved != NULL ? TRACE_REALLOC_TO : TRACE_FAILED);
  trace_publish(room, 2);
  return moved;
}

void *trace_realloc(void *pointer, size_t size) {
  if (pointer == NULL) return trace_malloc(size);
  if (HAK_UNLIKELY(!trace_is_on())) return api_realloc(pointer, size);
  if (size == 0) {
    record_free(pointer, 0);
    return api_realloc(pointer, 0);
  }
  struct trace_room room = trace_take(2);
  return room.events != NULL ? reallocate(pointer, size, room) : api_realloc(pointer, size);
}

void *trace_reallocarray(void *pointer, size_t count, size_t size) {
  size_t bytes;
  if (HAK_LIKELY(!__builtin_mul_overflow(count, size, &bytes)))
    return trace_realloc(pointer, bytes);
  struct trace_room room = {NULL, NULL};
  if (pointer != NULL && trace_is_on()) room = trace_take(2);
  if (room.events == NULL) return pointer == NULL ? trace_overflow() : api_calloc_overflow();
  trace_write(&room.events[0], trace_now_in_order(), pointer, 0, TRACE_REALLOC_OF);
  trace_write(&room.events[1], trace_now_in_order(), pointer, NO_SIZE, TRACE_FAILED);
  trace_publish(room, 2);
  return api_calloc_overflow();
}
