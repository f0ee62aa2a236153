/* shared_tick.c - see shared_tick.h. */
#include "heap/shared_tick.h"

void (*shared_write)(bool may_make);
