/* learn.c - the adaptive policy (HAKMEM_LEARN=1): refills and cache depths follow the traffic of each class.
 *
 * A class whose bin runs empty again and again gathers twice as much at each refill, up to 64 KiB; one
 * that runs over gathers less. When the budget of all bins is used up and a class wants more, a class
 * that had no traffic since the last look gives up half of its capacity: the idea is the thread-cache
 * scavenging of tcmalloc (its design document, "garbage collection"). Slow paths only; the verdict on it is
 * docs/decisions/0009.
 */
#include "heap/learn.h"

#include "heap/bins.h"

enum { REFILL_SHIFT_MOST = 4, TRAFFIC_MOST = 255, LOOKS = 8 };
enum {
  CAPACITY_LEAST = 4
}; /* of a bin that is halved: an overflow keeps half, at least one block */

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

bool learn_reclaim(struct heap *heap, unsigned for_class) {
  struct learner *learner = &heap->learner;
  for (unsigned i = 0; i < LOOKS; i++) {
    unsigned victim = learner->next_victim;
    struct bin *bin = &heap->bins[victim];
    learner->next_victim = (uint8_t)((victim + 1) % CLASS_COUNT);
    bool quiet = learner->traffic[victim] == 0;
    learner->traffic[victim] = 0;
    if (victim == for_class || !quiet || bin->capacity < CAPACITY_LEAST) continue;
    bin_halve(heap, bin);
    if (bin->room < 0) bin_trim(heap, bin, bin->capacity);
    return true;
  }
  return false;
}
