/* family.c - override.c with other names for its functions: what is only to be had there (memalign, malloc_info and others) can
 * so be called in a process whose malloc is another. Before every header, so that declarations change with it.
 */
#define malloc family_malloc
#define calloc family_calloc
#define realloc family_realloc
#define reallocarray family_reallocarray
#define free family_free
#define free_sized family_free_sized
#define free_aligned_sized family_free_aligned_sized
#define aligned_alloc family_aligned_alloc
#define posix_memalign family_posix_memalign
#define memalign family_memalign
#define valloc family_valloc
#define pvalloc family_pvalloc
#define malloc_usable_size family_usable_size
#define malloc_trim family_trim
#define mallopt family_mallopt
#define malloc_info family_info
#define malloc_stats family_stats
#define mallinfo family_mallinfo
#define mallinfo2 family_mallinfo2

#define __libc_malloc family_libc_malloc
#define __libc_calloc family_libc_calloc
#define __libc_realloc family_libc_realloc
#define __libc_free family_libc_free
#define __libc_memalign family_libc_memalign
#define __libc_valloc family_libc_valloc
#define __libc_pvalloc family_libc_pvalloc

#include "api/override.c"       // NOLINT(bugprone-suspicious-include)
#include "api/override_forms.c" // NOLINT(bugprone-suspicious-include)
