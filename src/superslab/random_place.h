/* random_place.h - where new units lie: hardened, at random places in a part of the address space that is drawn once a process. */
#ifndef HAK_RANDOM_PLACE_H
#define HAK_RANDOM_PLACE_H

#include "os/os.h"

#if HAK_HARDENED

/** `bytes` of new address space that start `ahead` bytes before a random multiple of `alignment`, a power of two of 2 MiB or more. NULL:
 * wherever the kernel likes, by the option, for want of a free place, or because there are too many mappings. */
char *random_place_map(size_t bytes, size_t alignment, size_t ahead);
/** In the child of a fork: goes on with other numbers than its parent. */
void random_place_fork_child(void);

#else

static inline char *random_place_map(size_t bytes, size_t alignment, size_t ahead) {
  return (void)bytes, (void)alignment, (void)ahead, NULL;
}
static inline void random_place_fork_child(void) {}

#endif

#endif
