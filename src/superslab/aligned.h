/* aligned.h - address space at a multiple of 2 MiB or more. */
#ifndef HAK_ALIGNED_H
#define HAK_ALIGNED_H

#include "os/os.h"

/** `bytes` of address space that starts `ahead` bytes before a multiple of `alignment`, a power of two; NULL: refused. `*at_once` becomes
 * false if the kernel placed it elsewhere first. */
char *aligned_map(size_t bytes, size_t alignment, size_t ahead, bool *at_once);

#endif
