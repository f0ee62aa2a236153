/* workers.h - the threads of an input. */
#ifndef HAK_FUZZ_WORKERS_H
#define HAK_FUZZ_WORKERS_H

#include "input.h"

/** Has the action done by its thread, which is started if it does not run. Thread 0 is the caller.
 *
 * Unless `at_once` the caller waits until it is done: an input is then the same each time. Otherwise threads run beside each
 * other, each through its own actions in order; two actions on the same slots keep their order, by which blocks are handed over. */
void workers_do(const struct action *action, bool at_once);

/** Waits until this thread has done all that it was given; it ends if `end`. */
void workers_wait(unsigned thread, bool end);
void workers_wait_all(bool end);

#endif
