/* learn.c - the adaptive policy (HAKMEM_LEARN=1): refills and cache depths follow the traffic of each class.
 *
 * A class whose bin runs empty again and again gathers twice as much at each refill, up to 64 KiB; one
 * that runs over gathers less. When the budget of all bins is used up and a class wants more, a class
 * that had no traffic since the last look gives up half of its capacity: the idea is the thread-cache
 * scavenging of tcmalloc (its design document, "garbage collection"). Slow paths only; the verdict on it is
 * docs/decisions/0009.
 */
#include "front/heap.h"

enum { REFILL_SHIFT_MOST = 4, TRAFFIC_MOST = 255, LOOKS = 8 };

static void saw(struct learner *learner, unsigned size_class) {
  if (learner->traffic[size_class] < TRAFFIC_MOST) learner->traffic[size_class]++;
}

void learn_refill(struct heap *heap, unsigned size_class) {
  struct learner *learner = &heap->learner;
  saw(learner, size_class);
  if (learner->refill_shift[size_class] < REFILL_SHIFT_MOST) learner->refill_shift[size_class]++;
}

void learn_overflow(struct heap *heap, unsigned size_class) {
  struct learner *learner = &heap->learner;
  saw(learner, size_class);
  if (learner->refill_shift[size_class] > 0) learner->refill_shift[size_class]--;
}

/* Halves what the bin may hold and returns its colder blocks if it holds more. */
static void halve(struct heap *heap, unsigned size_class) {
  struct bin *bin = &heap->bins[size_class];
  uint32_t less = bin->capacity / 2;
  bin->capacity -= less;
  bin->room -= (int32_t)less;
  heap->bin_budget_used -= (size_t)less * class_size(size_class);
  if (bin->room >= 0) return;
  void *block = bin->head, *cold;
  for (uint32_t i = 1; i < bin->capacity; i++) block = *(void **)block;
  cold = *(void **)block;
  *(void **)block = NULL;
  bin->room = 0;
  front_return(heap, cold);
}

bool learn_reclaim(struct heap *heap, unsigned for_class) {
  struct learner *learner = &heap->learner;
  for (unsigned i = 0; i < LOOKS; i++) {
    unsigned victim = learner->next_victim;
    learner->next_victim = (uint8_t)((victim + 1) % CLASS_COUNT);
    bool quiet = learner->traffic[victim] == 0;
    learner->traffic[victim] = 0;
    if (victim == for_class || !quiet || heap->bins[victim].capacity < 2) continue;
    halve(heap, victim);
    return true;
  }
  return false;
}
