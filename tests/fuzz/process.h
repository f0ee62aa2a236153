/* process.h - an input in a process of its own. */
#ifndef HAK_FUZZ_PROCESS_H
#define HAK_FUZZ_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Called in the child after an input that found nothing; NULL: nobody. */
extern void (*process_at_end)(void);

/** Runs an input from the library's very first call on, under the options that it chooses. True unless there is a finding, of
 * which the child has said on stderr what it is. `self` is this program, for a library that has started with it. */
bool process_run(const uint8_t *bytes, size_t length, const char *self);

/** Calls of the allocator that were judged in all these processes: of those that ended well. */
unsigned long process_calls(void);

/** In a program that process_run has started anew: the input, which lies in this descriptor. */
int process_run_here(int descriptor);

#endif
