/* cxx.h - the forms of operator new and delete (C++ [new.delete]).
 *
 * A program may define some of them and leave the others to us, which have to call its own then, as those of a C++ runtime do: an array's
 * form calls that of one object, one that is told a size, an alignment or std::nothrow the one that is not. So they are in three files,
 * and each calls forms of an earlier file as the loader finds them (cmake/replaced.list).
 */
#ifndef HAK_API_CXX_H
#define HAK_API_CXX_H

#include "api/api.h"

/* cxx.c */
void *_Znwm(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
void _ZdlPv(void *pointer);
void _ZdlPvSt11align_val_t(void *pointer, size_t alignment);
/* cxx_arrays.c */
void *_Znam(size_t size);
void *_ZnamSt11align_val_t(size_t size, size_t alignment);
void _ZdaPv(void *pointer);
void _ZdaPvSt11align_val_t(void *pointer, size_t alignment);

extern __typeof__(_Znwm) own__Znwm HAK_HIDDEN;
extern __typeof__(_ZnwmSt11align_val_t) own__ZnwmSt11align_val_t HAK_HIDDEN;
extern __typeof__(_ZdlPv) own__ZdlPv HAK_HIDDEN;
extern __typeof__(_ZdlPvSt11align_val_t) own__ZdlPvSt11align_val_t HAK_HIDDEN;
extern __typeof__(_Znam) own__Znam HAK_HIDDEN;
extern __typeof__(_ZnamSt11align_val_t) own__ZnamSt11align_val_t HAK_HIDDEN;
extern __typeof__(_ZdaPv) own__ZdaPv HAK_HIDDEN;
extern __typeof__(_ZdaPvSt11align_val_t) own__ZdaPvSt11align_val_t HAK_HIDDEN;

void *cxx_new_slow(size_t size, size_t alignment, void *caller) HAK_HIDDEN;
/** As nothrow new: NULL where there is no memory. */
void *cxx_new_nothrow(size_t size, size_t alignment, void *caller) HAK_HIDDEN;

/* nothrow.cc: NULL in place of an exception. */
void *cxx_new_or_null(size_t size, size_t alignment, void *caller) HAK_HIDDEN;
void *cxx_call_or_null(void *(*form)(size_t), size_t size) HAK_HIDDEN;
void *cxx_call_aligned_or_null(void *(*form)(size_t, size_t), size_t size,
                               size_t alignment) HAK_HIDDEN;

/* The tool that records calls has an api_malloc of its own (tools/trace_layer/bind.h). */
#ifdef api_malloc
enum { MALLOC_IS_OTHERS = 1 };
#else
enum { MALLOC_IS_OTHERS = 0 };
#endif

#endif
