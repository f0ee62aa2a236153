/* stack.h - where the calling thread is: the return addresses on its stack. */
#ifndef HAK_STACK_H
#define HAK_STACK_H

#include <stdbool.h>
#include <stdint.h>

/** Writes the return addresses of the calling thread's functions, innermost first, at most `most`; returns how many. Those in
 * this library are left out. Keeps errno, takes no lock, allocates nothing. `tables_leave`: pages of tables that it touched leave memory after
 * it, for which a file is opened. */
unsigned stack_take(uintptr_t *addresses, unsigned most, bool tables_leave);

/** The file of the object that the code lies in, and the address as that file has it. False: none is known (musl,
 * glibc before 2.35, code made at run time). */
bool stack_object(uintptr_t code, const char **file, uintptr_t *address);

#endif
