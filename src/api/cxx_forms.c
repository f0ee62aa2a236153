/* cxx_forms.c - the forms of operator new and delete that are told std::nothrow or a size (cxx.h). */
#include "api/cxx.h"

#define CALLER __builtin_return_address(0)

/* Is this form ours, and the one that it calls? */
#define ARE_OURS(form, object) (form == own_##form && object == own_##object)

#define NEW_NOTHROW(symbol, form, object)                                                          \
  HAK_EXPORT void *symbol(size_t size, const void *nothrow);                                       \
  HAK_EXPORT void *symbol(size_t size, const void *nothrow) {                                      \
    (void)nothrow;                                                                                 \
    return HAK_LIKELY(ARE_OURS(form, object)) ? cxx_new_nothrow(size, 0, CALLER)                   \
                                              : cxx_call_or_null(form, size);                      \
  }

#define NEW_ALIGNED_NOTHROW(symbol, form, object)                                                  \
  HAK_EXPORT void *symbol(size_t size, size_t alignment, const void *nothrow);                     \
  HAK_EXPORT void *symbol(size_t size, size_t alignment, const void *nothrow) {                    \
    (void)nothrow;                                                                                 \
    return HAK_LIKELY(ARE_OURS(form, object)) ? cxx_new_nothrow(size, alignment, CALLER)           \
                                              : cxx_call_aligned_or_null(form, size, alignment);   \
  }

#define DELETE_NOTHROW(symbol, form)                                                               \
  HAK_EXPORT void symbol(void *pointer, const void *nothrow);                                      \
  HAK_EXPORT void symbol(void *pointer, const void *nothrow) {                                     \
    (void)nothrow;                                                                                 \
    form(pointer);                                                                                 \
  }

#define DELETE_ALIGNED_NOTHROW(symbol, form)                                                       \
  HAK_EXPORT void symbol(void *pointer, size_t alignment, const void *nothrow);                    \
  HAK_EXPORT void symbol(void *pointer, size_t alignment, const void *nothrow) {                   \
    (void)nothrow;                                                                                 \
    form(pointer, alignment);                                                                      \
  }

/* Sizes tell nothing that the descriptor does not; the hardened variant compares them where the block is ours. */
enum { SIZES_COUNT = HAK_HARDENED || MALLOC_IS_OTHERS };

#define DELETE_SIZED(symbol, form, object)                                                         \
  HAK_EXPORT void symbol(void *pointer, size_t size);                                              \
  HAK_EXPORT void symbol(void *pointer, size_t size) {                                             \
    if (SIZES_COUNT && ARE_OURS(form, object)) api_free_sized(pointer, size);                      \
    else form(pointer);                                                                            \
  }

#define DELETE_SIZED_ALIGNED(symbol, form, object)                                                 \
  HAK_EXPORT void symbol(void *pointer, size_t size, size_t alignment);                            \
  HAK_EXPORT void symbol(void *pointer, size_t size, size_t alignment) {                           \
    if (SIZES_COUNT && ARE_OURS(form, object)) api_free_aligned_sized(pointer, alignment, size);   \
    else form(pointer, alignment);                                                                 \
  }

NEW_NOTHROW(_ZnwmRKSt9nothrow_t, _Znwm, _Znwm) /* new(size_t, nothrow) */
NEW_NOTHROW(_ZnamRKSt9nothrow_t, _Znam, _Znwm)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, _ZnwmSt11align_val_t, _ZnwmSt11align_val_t)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, _ZnamSt11align_val_t, _ZnwmSt11align_val_t)

DELETE_NOTHROW(_ZdlPvRKSt9nothrow_t, _ZdlPv)
DELETE_NOTHROW(_ZdaPvRKSt9nothrow_t, _ZdaPv)
DELETE_ALIGNED_NOTHROW(_ZdlPvSt11align_val_tRKSt9nothrow_t, _ZdlPvSt11align_val_t)
DELETE_ALIGNED_NOTHROW(_ZdaPvSt11align_val_tRKSt9nothrow_t, _ZdaPvSt11align_val_t)
DELETE_SIZED(_ZdlPvm, _ZdlPv, _ZdlPv) /* delete(void *, size_t) */
DELETE_SIZED(_ZdaPvm, _ZdaPv, _ZdlPv)
DELETE_SIZED_ALIGNED(_ZdlPvmSt11align_val_t, _ZdlPvSt11align_val_t, _ZdlPvSt11align_val_t)
DELETE_SIZED_ALIGNED(_ZdaPvmSt11align_val_t, _ZdaPvSt11align_val_t, _ZdlPvSt11align_val_t)
