/* effective.h - hakmem options --effective: what a process runs with. */
#ifndef HAKMEM_EFFECTIVE_H
#define HAKMEM_EFFECTIVE_H

#include <stdbool.h>

#include "option_table.h"

/** Prints the values of the process that `pid` names, of one option or (NULL) of all. 0, or an exit code. */
int effective_options(char *process, const struct option_row *only, bool json);

#endif
