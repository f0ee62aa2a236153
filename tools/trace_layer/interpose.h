/* interpose.h - the functions of src/api/api.h, recorded. */
#ifndef HAKMEM_TRACE_INTERPOSE_H
#define HAKMEM_TRACE_INTERPOSE_H

#include "os/os.h"

void *trace_malloc(size_t size) HAK_HIDDEN;
void *trace_calloc(size_t count, size_t size) HAK_HIDDEN;
void *trace_overflow(void) HAK_HIDDEN;
void *trace_realloc(void *pointer, size_t size) HAK_HIDDEN;
void *trace_reallocarray(void *pointer, size_t count, size_t size) HAK_HIDDEN;
void *trace_aligned_alloc(size_t alignment, size_t size) HAK_HIDDEN;
int trace_posix_memalign(void **out, size_t alignment, size_t size) HAK_HIDDEN;
void trace_free(void *pointer) HAK_HIDDEN;
void trace_free_sized(void *pointer, size_t size) HAK_HIDDEN;

#endif
