/* counters.c - see counters.h. */
#include "observe/counters.h"

struct counters counters_shared;
_Atomic uint64_t counters_supplied[COUNTED_CLASSES][SUPPLIES];
