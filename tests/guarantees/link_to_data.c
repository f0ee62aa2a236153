/* The link of a free block is made to lead to a static variable. */
#include "written_after.h"

static unsigned char target[8192] __attribute__((aligned(4096)));

void run(void) { write_link((uintptr_t)opaque(target), sizeof(void *), HANDED_OUT_TARGET); }
