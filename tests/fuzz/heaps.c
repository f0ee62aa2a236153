/* heaps.c - the actions with heaps of the program's own. */
#include "actions.h"

#include "model.h"

#include <errno.h>
#include <pthread.h>

enum { HEAPS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hak_heap *heaps[HEAPS + 1]; /* by number, from 1 on */

static hak_heap *heap_of_number(unsigned number) {
  pthread_mutex_lock(&lock);
  if (heaps[number] == NULL) {
    struct call call = call_begin("hak_heap_create");
    heaps[number] = run.calls->heap_create(number % 2 == 0 ? "fuzzed" : NULL, 0);
    if (heaps[number] == NULL) call_refused(&call, errno, sizeof(void *));
    else call_kept_errno(&call);
  }
  hak_heap *heap = heaps[number];
  pthread_mutex_unlock(&lock);
  return heap;
}

void heap_allocate(const struct action *action) {
  if (run.calls->heap_create == NULL) return;
  unsigned number = 1 + action->number % HEAPS, how = action->number / HEAPS % 3;
  hak_heap *heap = heap_of_number(number);
  if (heap == NULL) return;
  action_clear_slot(action);
  size_t size = action_size(action->size);
  size_t alignment = how == 2 ? (size_t)16 << action->number / HEAPS / 3 % 18 : 0;
  struct call call = call_begin("hak_heap_malloc");
  void *memory = how == 0   ? run.calls->heap_malloc(heap, size)
                 : how == 1 ? run.calls->heap_calloc(heap, 1, size)
                            : run.calls->heap_aligned_alloc(heap, alignment, size);
  if (memory != NULL) {
    if (how == 1) model_check_zero(memory, size, "hak_heap_calloc");
    if (run.calls->heap_of(memory) != heap) fuzz_fail("hak_heap_of does not know %p", memory);
  }
  action_keep(action, &call, memory, size, alignment, number);
}

static bool count(void *block, size_t usable, void *argument) {
  (void)block, (void)usable;
  ++*(uint64_t *)argument;
  return true;
}

void heap_end(unsigned number) {
  if (run.calls->heap_create == NULL) return;
  number = 1 + number % HEAPS;
  if (heaps[number] == NULL) return;
  uint64_t blocks = 0, walked = 0;
  struct hak_heap_stats stats = {.size = sizeof stats};
  for (unsigned slot = 0; slot < SLOTS; slot++)
    if (model_look(slot).start != NULL && model_look(slot).heap == number) {
      struct block block = model_take(slot, "before the heap's end");
      if (run.calls->heap_of(block.start) != heaps[number])
        fuzz_fail("block %p has left its heap", (void *)block.start);
      blocks++;
    }
  if (run.calls->heap_stats_get(heaps[number], &stats) != 0 || stats.live_blocks != blocks)
    fuzz_fail("a heap with %llu blocks says that it has %llu", (unsigned long long)blocks,
              (unsigned long long)stats.live_blocks);
  run.calls->heap_walk(heaps[number], count, &walked);
  if (walked != blocks)
    fuzz_fail("a walk finds %llu blocks of %llu", (unsigned long long)walked,
              (unsigned long long)blocks);
  struct call call = call_begin("hak_heap_destroy");
  run.calls->heap_destroy(heaps[number]);
  call_kept_errno(&call);
  heaps[number] = NULL;
}

void heaps_end(void) {
  for (unsigned number = 0; number < HEAPS; number++) heap_end(number);
}
