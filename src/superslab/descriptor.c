/* descriptor.c - see descriptor.h. */
#include "superslab/descriptor.h"

#include <string.h>

static struct superslab *unused HAK_START_DATA; /* under superslab_lock */

/* A page for each slice that was a slab. */
#define STATES_BYTES (UNIT_BYTES / STATE_BYTES)

void descriptor_give_states(const struct superslab *superslab) {
  if (!HAK_HARDENED) return;
  uintptr_t page = os_page_size(), states = (uintptr_t)superslab->states;
  uintptr_t start = (states + page - 1) & ~(page - 1), end = (states + STATES_BYTES) & ~(page - 1);
  if (end > start) os_decommit((char *)start, end - start);
}

/* Whoever still has a span of what it described reads its kind without a lock (span_cache_claim_old), and needs no more than that it is
 * not KIND_CACHED, as which it was given up. ThreadSanitizer would see a race in memset. */
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread"))) static void clear(struct superslab *superslab) {
  for (size_t i = 0; i < sizeof *superslab / 8; i++) ((volatile uint64_t *)superslab)[i] = 0;
}
#else
static void clear(struct superslab *superslab) { memset(superslab, 0, sizeof *superslab); }
#endif

struct superslab *descriptor_new(void) {
  lock_acquire(&superslab_lock);
  struct superslab *superslab = unused;
  bool used_before = superslab != NULL;
  if (used_before) unused = superslab->next;
  lock_release(&superslab_lock);
  if (superslab == NULL) superslab = meta_allocate(sizeof *superslab, 64);
  if (superslab == NULL) return NULL;
  _Atomic uint8_t *states = superslab->states;
  if (used_before) clear(superslab);
#if HAK_HARDENED
  /* Slabs that go leave zeros behind. */
  if (states == NULL) states = meta_allocate(STATES_BYTES, 4 * KIB);
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
  superslab->next = unused;
  unused = superslab;
}

/* --- of Huge blocks ----------------------------------------------------------------------------------- */

/* The header and the first slice's: a Huge block has no more, and one of 2 MiB would take 2 KiB for nothing otherwise. They lie in groups of
 * their own, in which a whole descriptor can be read from each one's start on. A stale pointer, as of a second free, so reads memory of ours;
 * and `huge_units` is never 0 again, so that it is not taken for a SuperSlab's (front/block.h). */
#define SHORT_BYTES (offsetof(struct superslab, slabs) + sizeof(struct slab))
#define FIRST_GROUP_BYTES (4 * KIB)
#define GROUP_BYTES (32 * KIB)

/* Under superslab_lock. */
static struct superslab *unused_short HAK_START_DATA;
static char *group HAK_START_DATA, *group_end HAK_START_DATA;
static bool any_group HAK_START_DATA;

/* NULL: a new group is needed. */
static struct superslab *take_short(void) {
  struct superslab *superslab = unused_short;
  if (superslab != NULL) {
    unused_short = superslab->next;
    memset(superslab, 0, offsetof(struct superslab, huge_units));
    char *behind = (char *)&superslab->huge_units + sizeof superslab->huge_units;
    memset(behind, 0, SHORT_BYTES - (size_t)(behind - (char *)superslab));
    return superslab;
  }
  if ((size_t)(group_end - group) < sizeof *superslab) return NULL;
  superslab = (struct superslab *)(void *)group;
  group += SHORT_BYTES;
  return superslab;
}

struct superslab *descriptor_new_huge(void) {
  lock_acquire(&superslab_lock);
  struct superslab *superslab = take_short();
  size_t bytes = any_group ? GROUP_BYTES : FIRST_GROUP_BYTES;
  lock_release(&superslab_lock);
  if (superslab != NULL) return superslab;
  char *memory = meta_allocate(bytes, 64);
  if (memory == NULL) return NULL;
  lock_acquire(&superslab_lock);
  /* Of two threads that come here, the rest of one's group is lost. */
  group = memory;
  group_end = memory + bytes;
  any_group = true;
  superslab = take_short();
  lock_release(&superslab_lock);
  return superslab;
}

void descriptor_free_huge(struct superslab *superslab) {
  superslab->next = unused_short;
  unused_short = superslab;
}

void descriptors_forget(void) {
  unused = unused_short = NULL;
  group = group_end = NULL;
}
