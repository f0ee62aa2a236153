/* object.h - the objects that the loader has mapped. */
#ifndef HAK_OBJECT_H
#define HAK_OBJECT_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(DLFO_STRUCT_HAS_EH_DBASE) /* <dlfcn.h> of glibc 2.35, if _GNU_SOURCE is asked for */

/** The object that the code lies in; false: none, or libc is older. Takes no lock, and may be called from anywhere, also while an
 * object comes or goes. */
bool object_of(uintptr_t code, struct dl_find_object *found);

#endif
#endif
