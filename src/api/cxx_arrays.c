/* cxx_arrays.c - operator new[] and delete[]: those of one object, as the program finds these (cxx.h). */
#include "api/cxx.h"

HAK_EXPORT void *_Znam(size_t size) { return _Znwm(size); }

HAK_EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment) {
  return _ZnwmSt11align_val_t(size, alignment);
}

HAK_EXPORT void _ZdaPv(void *pointer) { _ZdlPv(pointer); }

HAK_EXPORT void _ZdaPvSt11align_val_t(void *pointer, size_t alignment) {
  _ZdlPvSt11align_val_t(pointer, alignment);
}

HAK_OWN(_Znam);
HAK_OWN(_ZnamSt11align_val_t);
HAK_OWN(_ZdaPv);
HAK_OWN(_ZdaPvSt11align_val_t);
