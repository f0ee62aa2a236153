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

struct superslab *descriptor_new(void) {
  lock_acquire(&superslab_lock);
  struct superslab *superslab = unused;
  bool used_before = superslab != NULL;
  if (used_before) unused = superslab->next;
  lock_release(&superslab_lock);
  if (superslab == NULL) superslab = meta_allocate(sizeof *superslab, 64);
  if (superslab == NULL) return NULL;
  _Atomic uint8_t *states = superslab->states;
  if (used_before) memset(superslab, 0, sizeof *superslab);
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

void descriptors_forget(void) { unused = NULL; }
