/* The link of a free block is made to lead to a block that lives. */
#include "written_after.h"

void run(void) { write_link((uintptr_t)take(tier.full), sizeof(void *), HANDED_OUT_TWICE); }
