/* object.c - see object.h; and which file a place in the code is from. */
#define _GNU_SOURCE /* dl_find_object, program_invocation_name */
#include "stack/object.h"

#include <errno.h>
#include <link.h>
#include <stddef.h>

#include "stack/stack.h"

#if defined(DLFO_STRUCT_HAS_EH_DBASE)

/* NOLINTNEXTLINE(readability-redundant-declaration): weak */
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));

bool object_of(uintptr_t code, struct dl_find_object *found) {
  return &_dl_find_object != NULL && _dl_find_object((void *)code, found) == 0;
}

bool stack_object(uintptr_t code, const char **file, uintptr_t *address) {
  struct dl_find_object found;
  if (!object_of(code, &found)) return false;
  const struct link_map *map = found.dlfo_link_map;
  *file = map->l_name[0] != 0 ? map->l_name : program_invocation_name;
  *address = code - map->l_addr;
  return true;
}

#else

bool stack_object(uintptr_t code, const char **file, uintptr_t *address) {
  (void)code;
  (void)file;
  (void)address;
  return false;
}

#endif
