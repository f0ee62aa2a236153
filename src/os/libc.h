/* libc.h - libc's own allocator, for HAKMEM_FORCE_LIBC_ALLOC=1 (same code layout, other allocator).
 *
 * Each function has the contract of the one whose name it carries.
 */
#ifndef HAK_OS_LIBC_H
#define HAK_OS_LIBC_H

#include <stdbool.h>
#include <stddef.h>

/** False in a program that holds no other allocator than ours. */
bool libc_is_reachable(void);

/** The function `name` as it would be without this library; NULL when there is none. */
void *libc_function(const char *name);

/** A handle (dlopen) of a library that is in the process already; NULL: it is not, or the program is
 * static. */
void *libc_open_loaded(const char *library);
void libc_close_loaded(void *library);

void *libc_malloc(size_t size);
void *libc_calloc(size_t count, size_t size);
void *libc_realloc(void *block, size_t size);
void *libc_memalign(size_t alignment, size_t size);
void libc_free(void *block);
size_t libc_usable_size(void *block);

#endif
