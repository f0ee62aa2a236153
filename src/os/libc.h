/* libc.h - libc's own allocator, for HAKMEM_FORCE_LIBC_ALLOC=1 (same code layout, other allocator).
 *
 * Each function has the contract of the one whose name it carries. Where libc's allocator cannot be
 * reached (a static program holds ours in its place), allocations fail with ENOMEM.
 */
#ifndef HAK_OS_LIBC_H
#define HAK_OS_LIBC_H

#include <stddef.h>

void *libc_malloc(size_t size);
void *libc_calloc(size_t count, size_t size);
void *libc_realloc(void *block, size_t size);
void *libc_memalign(size_t alignment, size_t size);
void libc_free(void *block);
size_t libc_usable_size(void *block);

#endif
