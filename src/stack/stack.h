/* stack.h - where the calling thread is: the return addresses on its stack. */
#ifndef HAK_STACK_H
#define HAK_STACK_H

#include <stdint.h>

/** Writes the return addresses of the calling thread's functions, innermost first, at most `most`; returns how many. Those in
 * this library are left out. Keeps errno, takes no lock, allocates nothing. */
unsigned stack_take(uintptr_t *addresses, unsigned most);

#endif
