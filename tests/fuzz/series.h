/* series.h - long inputs, many in one process, for as many calls as are asked for. */
#ifndef HAK_FUZZ_SERIES_H
#define HAK_FUZZ_SERIES_H

#include <stdbool.h>
#include <stdint.h>

/** Reads the inputs of a folder, which the long ones are made of. False: it cannot be read, or holds none; errno says why. */
bool series_read(const char *folder);

/** All inputs of one process of a seed, in this one. */
void series_run_here(uint64_t seed, uint64_t number);

/** The same in a process of its own; `again` is how this program is called to do it. True unless there is a finding. */
bool series_run(uint64_t seed, uint64_t number, char *const *again);

#endif
