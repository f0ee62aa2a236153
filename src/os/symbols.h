/* symbols.h - what other libraries find when they ask libc for a function by name.
 *
 * Part of libhakmem.so alone, with glibc alone (api/deepbind.c).
 */
#ifndef HAK_OS_SYMBOLS_H
#define HAK_OS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

/** From now on, who looks a name of `names` up in libc gets what the program gets that looks it up among all its
 * libraries. Nothing else changes: what was looked up before stays as it was, and libc's functions stay where they are.
 * Names that either side does not have are passed over. Calls the dynamic loader, so it is not for callers inside malloc;
 * any thread, any number of times: the first call does it, and all return after it is done. False: the system or libc's
 * file does not allow it, and nothing has changed. */
bool symbols_replace_in_libc(const char *const *names, size_t count);

#endif
