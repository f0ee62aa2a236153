/* real.c - see real.h. */
#define _GNU_SOURCE
#include "copies/real.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "hakmem.h"
#include "observe/report.h"

/* Of whichever library of hakmem's is loaded, if any. */
#pragma weak hak_room

static void *plain_memmove(void *to, const void *from, size_t bytes) {
  unsigned char *target = to;
  const unsigned char *source = from;
  if ((uintptr_t)target - (uintptr_t)source >= bytes)
    for (size_t i = 0; i < bytes; i++) target[i] = source[i];
  else
    while (bytes-- > 0) target[bytes] = source[bytes];
  return to;
}

static void *plain_memset(void *to, int byte, size_t bytes) {
  unsigned char *target = to;
  for (size_t i = 0; i < bytes; i++) target[i] = (unsigned char)byte;
  return to;
}

_Atomic(copy_function *) real_memcpy = plain_memmove, real_memmove = plain_memmove;
_Atomic(set_function *) real_memset = plain_memset;
struct unchecked unchecked = {0, UINTPTR_MAX};

static void set_unchecked(uintptr_t start, uintptr_t bytes) {
  atomic_store_explicit(&unchecked.start, start, memory_order_relaxed);
  atomic_store_explicit(&unchecked.bytes, bytes, memory_order_relaxed);
}

void checks_end(void) { set_unchecked(0, UINTPTR_MAX); }

/* One object that is loaded: does it hold hak_room? */
static int look_at(struct dl_phdr_info *object, size_t size, void *found) {
  uintptr_t low = UINTPTR_MAX, high = 0, address = (uintptr_t)hak_room;
  (void)size;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD) continue;
    uintptr_t start = object->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
    if (start < low) low = start;
    if (end > high) high = end;
  }
  if (address < low || address >= high) return 0;
  /* The program itself has no name: all its calls would be the allocator's. */
  *(bool *)found = object->dlpi_name != NULL && object->dlpi_name[0] != 0;
  if (*(bool *)found) set_unchecked(low, high - low);
  return 1;
}

static void say_off(void) {
  struct report line;
  report_start(&line);
  report_text(&line,
              hak_room == NULL
                  ? "copies are not checked: no library of hakmem's is loaded that knows its blocks"
                  : "copies are not checked: hakmem is linked into the program");
  report_end(&line);
}

/* dlsym() allocates for its errors alone. */
__attribute__((constructor)) static void start(void) {
  copy_function *memcpy_found = (copy_function *)dlsym(RTLD_NEXT, "memcpy");
  copy_function *memmove_found = (copy_function *)dlsym(RTLD_NEXT, "memmove");
  set_function *memset_found = (set_function *)dlsym(RTLD_NEXT, "memset");
  if (memcpy_found != NULL) atomic_store_explicit(&real_memcpy, memcpy_found, memory_order_relaxed);
  if (memmove_found != NULL)
    atomic_store_explicit(&real_memmove, memmove_found, memory_order_relaxed);
  if (memset_found != NULL) atomic_store_explicit(&real_memset, memset_found, memory_order_relaxed);
  bool found = false;
  if (hak_room != NULL) dl_iterate_phdr(look_at, &found);
  if (!found) say_off();
}
