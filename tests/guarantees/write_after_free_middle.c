/* A word in the middle of a freed block is overwritten. */
#include "written_after.h"

void run(void) { write_to_freed(tier.full / 16 * 8, 8); }
