/* written_after.h - memory is written to after it was freed, and nobody has been given it meanwhile. */
#ifndef WRITTEN_AFTER_H
#define WRITTEN_AFTER_H

#include "guarantee.h"

/* The block that was freed last is written to: it is the one that a list hands out first. */
static inline void write_to_freed(size_t offset, size_t length) {
  void *other = take(tier.full), *block = take(tier.full);
  free(other);
  free(block);
  announce(NULL, block);
  access_begins();
  if (!twin) memset(opaque(block) + offset, 'A', length);
  access_ends();
  opaque(comes_back(block, tier.full) ? block : other);
  survived();
}

/* The same, and the first word is made a pointer to what the attacker would like to be handed out. */
static inline void write_link(uintptr_t target, size_t length, const char *what) {
  void *other = take(tier.full), *block = take(tier.full);
  free(other);
  free(block);
  announce(NULL, block);
  access_begins();
  if (!twin) memcpy(opaque(block), &target, length);
  access_ends();
  for (unsigned i = 0; i < tier.many; i++) {
    void *taken = opaque(malloc(tier.full));
    if ((uintptr_t)taken == target) harm(what);
  }
  /* From a quarantine it comes later. */
  opaque(comes_back(block, tier.full) ? block : other);
  survived();
}

#endif
