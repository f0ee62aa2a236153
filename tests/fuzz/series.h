/* series.h - long inputs, many in one process, for as many calls as are asked for. */
#ifndef HAK_FUZZ_SERIES_H
#define HAK_FUZZ_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** An input of which the long ones are made, before the first of them. Beyond 1 MiB in all they are left out. */
void series_add(const uint8_t *bytes, size_t length);
/** False: too little was added to draw from. */
bool series_has_enough(void);

/** All inputs of one process of a seed, in this one. */
void series_run_here(uint64_t seed, uint64_t number);

/** The same in a process of its own; `again` is how this program is called to do it. True unless there is a finding. */
bool series_run(uint64_t seed, uint64_t number, char *const *again);

#endif
