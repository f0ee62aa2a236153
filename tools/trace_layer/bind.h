/* bind.h - included before the first line of each file of src/api that exports malloc and its family, for
 * libhakmem-trace.so: the same names and the same handling of arguments, bound to functions that record. */
#define _GNU_SOURCE
#include "api/api.h"

#include "interpose.h"

#define API_RECORDS 1
#define api_malloc trace_malloc
#define api_calloc trace_calloc
#define api_calloc_overflow trace_overflow
#define api_realloc trace_realloc
#define api_reallocarray trace_reallocarray
#define api_aligned_alloc trace_aligned_alloc
#define api_posix_memalign trace_posix_memalign
#define api_free trace_free
#define api_free_sized trace_free_sized
#define api_free_aligned_sized(pointer, alignment, size)                                           \
  ((void)(alignment), trace_free_sized(pointer, size))
