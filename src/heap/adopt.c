/* adopt.c - see adopt.h. */
#include "heap/adopt.h"

#include "heap/common.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "os/probe.h"

/* At most so many heaps are looked at for a slab, the others next time: a cache miss each, under the own heap's lock. */
enum { ADOPT_SLABS = 2, ADOPT_HEAPS = 16, ADOPT_LOOKS = 128 };
/* At most so many slabs of a list: a cache miss or two each, under both heaps' locks. */
enum { SLABS_A_HOLD = 64 };

static void take_slab(struct heap *heap, struct heap *from, struct slab *slab) {
  slabs_disown(from, slab);
  slab_set_bin(slab, &heap->bins[slab->size_class]);
  slabs_own(heap, slab);
  slabs_enlist(heap, slab);
}

/* Slabs with room out of another heap, whose lock the caller holds as well as its own. */
static unsigned take_slabs(struct heap *heap, struct heap *from, unsigned size_class, bool parked) {
  struct class_slabs *slabs = &from->classes[size_class];
  unsigned taken = 0;
  struct slab *next;
  unsigned looked = 0;
  for (struct slab *slab = slabs->first;
       slab != NULL && taken < ADOPT_SLABS && looked < SLABS_A_HOLD; slab = next, looked++) {
    next = slab->next;
    if (slab->free_list == NULL && !parked) continue; /* uncarved room: its owner will use it */
    take_slab(heap, from, slab);
    taken++;
  }
  for (; parked && slabs->given != NULL && taken < ADOPT_SLABS; taken++)
    take_slab(heap, from, slabs->given);
  return taken;
}

/* Takes one heap's memory of the class, if it sleeps and its lock is free. `*asked`: it was worth an attempt. */
static bool adopt_from(struct heap *heap, struct heap *from, unsigned size_class, bool *asked) {
  bool parked = atomic_load_explicit(&from->state, memory_order_relaxed) == HEAP_PARKED;
  bool sleeping =
      atomic_load_explicit(&from->inbox_bytes, memory_order_relaxed) >= SLEEPING_INBOX_BYTES;
  *asked = (parked || sleeping) && !common_is(from) &&
           atomic_load_explicit(&from->classes[size_class].count, memory_order_relaxed) > 0;
  if (!*asked || !lock_try(&from->lock)) return false;
  /* A large pile is taken as it is: sorting it into slabs would cost more than their locality gains. */
  if (remote_steal(heap, from, size_class)) {
    lock_release(&from->lock);
    return true;
  }
  (void)slabs_put_batches(from, size_class);
  /* Read again under the lock: only now is a parked heap sure to stay parked. */
  parked = atomic_load_explicit(&from->state, memory_order_relaxed) == HEAP_PARKED;
  if (parked) (void)slabs_put_parked_bin(from, size_class);
  unsigned taken = take_slabs(heap, from, size_class, parked);
  lock_release(&from->lock);
  return taken > 0;
}

bool adopt_slabs(struct heap *heap, unsigned size_class, bool far) {
  unsigned asked_in_all = 0, looks = 0;
  if (!heap_any_sleeps()) return false;
  struct heap *start = heap->adopt_from != NULL ? heap->adopt_from : heap_first(), *from = start;
  bool taken = false;
  do {
    bool asked = false;
    taken = from != heap && (far || heap_node(from) == heap_node(heap)) &&
            adopt_from(heap, from, size_class, &asked);
    asked_in_all += asked;
    if (taken) probe_adopt(heap, from, class_size(size_class));
    if (taken) break; /* it may have more */
    from = from->next != NULL ? from->next : heap_first();
  } while (from != start && asked_in_all < ADOPT_HEAPS && ++looks < ADOPT_LOOKS);
  heap->adopt_from = from;
  return taken;
}
