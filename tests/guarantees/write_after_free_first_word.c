/* The first word of a freed block is overwritten: in most allocators that link free blocks, the link. */
#include "written_after.h"

void run(void) { write_to_freed(0, 8); }
