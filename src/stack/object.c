/* object.c - see object.h; and which file a place in the code is from. */
#define _GNU_SOURCE /* dl_find_object, program_invocation_name */
#include "stack/object.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "os/os.h"
#include "stack/stack.h"

#if defined(DLFO_STRUCT_HAS_EH_DBASE)

/* NOLINTNEXTLINE(readability-redundant-declaration): weak */
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));

/* A static program's glibc calls malloc while it sets up what _dl_find_object reads, and reads through a null pointer if it is asked then (2.36).
 * Constructors run later. relaxed: who does not see it yet loses a stack. */
static atomic_bool is_set_up HAK_START_DATA;

__attribute__((constructor)) HAK_AT_LOAD static void at_load(void) {
  atomic_store_explicit(&is_set_up, true, memory_order_relaxed);
}

/* The loader, which a static program does not have, sets all up before it calls anybody. */
static bool may_ask(void) {
  return &_dl_find_object != NULL &&
         (atomic_load_explicit(&is_set_up, memory_order_relaxed) || os_told_at_start(AT_BASE) != 0);
}

bool object_of(uintptr_t code, struct dl_find_object *found) {
  return may_ask() && _dl_find_object((void *)code, found) == 0;
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
