/* descriptor.c - see descriptor.h. */
#include "superslab/descriptor.h"

#include <string.h>

#include "superslab/unit_os.h"

/* Under superslab_lock. Hardened: the pages of their states may be in memory; and those whose states have none. */
static struct superslab *unused HAK_START_DATA;
static size_t unused_count;
static struct superslab *unused_bare;

static struct superslab *take(struct superslab **list) {
  struct superslab *superslab = *list;
  if (superslab != NULL) *list = superslab->next;
  return superslab;
}

static void put(struct superslab **list, struct superslab *superslab) {
  superslab->next = *list;
  *list = superslab;
}

static struct superslab *take_unused(void) {
  struct superslab *superslab = take(&unused);
  if (!HAK_HARDENED) return superslab;
  if (superslab == NULL) return take(&unused_bare);
  unused_count--;
  return superslab;
}

#if HAK_HARDENED

static void give_states(const struct superslab *superslab) {
  if (superslab->states == NULL) return;
  uintptr_t page = os_page_size(), states = (uintptr_t)superslab->states;
  uintptr_t start = (states + page - 1) & ~(page - 1), end = (states + STATES_BYTES) & ~(page - 1);
  if (end > start) os_decommit((char *)start, end - start);
}

/* Out of the lists while its states go: whoever took it meanwhile would lose those of its first slab. */
void descriptors_give_states(void) {
  for (;;) {
    size_t most = unit_warm_bytes() >> UNIT_SHIFT;
    lock_acquire(&superslab_lock);
    struct superslab *superslab = unused_count > most ? take_unused() : NULL;
    lock_release(&superslab_lock);
    if (superslab == NULL) return;
    give_states(superslab);
    lock_acquire(&superslab_lock);
    put(&unused_bare, superslab);
    lock_release(&superslab_lock);
  }
}

#endif

static void clear_word(_Atomic uint64_t *word) {
  atomic_store_explicit(word, 0, memory_order_relaxed); /* argued at clear */
}

/* The purger may read a descriptor that is being cleared: a thread's cache can still name a span that has left it
 * (span_cache_claim_old). It reads kinds and lengths of slices without a lock. Any mix of old and new is harmless. No slice has
 * KIND_CACHED, neither before (its SuperSlab was given up when all were free) nor after (0 is KIND_FREE), so the purger claims none;
 * and a length of 0 counts as one slice.
 * relaxed: superslab_lock, which `unused` is under, puts the last user's writes before these. Words are stored whole, so that the
 * purger's bytes are never torn; C11 has no rule for a load of one byte of a word, the processors do. */
static void clear(struct superslab *superslab) {
  _Static_assert(sizeof *superslab % 64 == 0, "cleared by lines");
  _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)superslab;
  /* Written out: gcc leaves a loop of eight as it is at -O2, four instructions for each store. */
  for (_Atomic uint64_t *end = word + sizeof *superslab / 8; word < end; word += 8) {
    clear_word(word), clear_word(word + 1), clear_word(word + 2), clear_word(word + 3);
    clear_word(word + 4), clear_word(word + 5), clear_word(word + 6), clear_word(word + 7);
  }
}

struct superslab *descriptor_new(void) {
  lock_acquire(&superslab_lock);
  struct superslab *superslab = take_unused();
  bool used_before = superslab != NULL;
  lock_release(&superslab_lock);
  if (superslab == NULL) superslab = meta_allocate(sizeof *superslab, 64);
  if (superslab == NULL) return NULL;
  _Atomic uint8_t *states = superslab->states;
  if (used_before) clear(superslab);
#if HAK_HARDENED
  /* Slabs that go leave zeros behind. */
  if (states == NULL) states = meta_allocate(STATES_BYTES, 64);
  if (states == NULL) {
    lock_acquire(&superslab_lock);
    descriptor_free(superslab);
    lock_release(&superslab_lock);
    return NULL;
  }
#endif
  superslab->states = states;
  return superslab;
}

void descriptor_free(struct superslab *superslab) {
  put(&unused, superslab);
  if (HAK_HARDENED) unused_count++;
}

void descriptors_forget(void) {
  unused = unused_bare = NULL;
  unused_count = 0;
  huge_descriptors_forget();
}
