/* The second word of a freed block is overwritten. */
#include "written_after.h"

void run(void) { write_to_freed(8, 8); }
