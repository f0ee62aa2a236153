/* segment.c - see segment.h. */
#include "stack/segment.h"

#if STACK_HAS_TABLES

#include <elf.h>
#include <string.h>

/* Headers further away may lie in a page that is not the first segment's; no linker puts them there. */
enum { FIRST_PAGE = 4096 };

bool segment_of_table(struct cfi_object *object) {
  const Elf64_Ehdr *file = (const Elf64_Ehdr *)object->start;
  uintptr_t table = (uintptr_t)object->table, moved_by = 0;
  bool is_known = false;
  if (memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phentsize != sizeof(Elf64_Phdr))
    return false;
  if (file->e_phoff > FIRST_PAGE ||
      file->e_phnum > (FIRST_PAGE - file->e_phoff) / sizeof(Elf64_Phdr))
    return false;
  const Elf64_Phdr *headers = (const Elf64_Phdr *)(object->start + file->e_phoff);
  for (unsigned i = 0; i < file->e_phnum; i++) {
    if (headers[i].p_type != PT_LOAD) continue;
    if (!is_known)
      moved_by = object->start - headers[i].p_vaddr; /* the first begins with the file */
    if (!is_known && headers[i].p_offset != 0) return false;
    is_known = true;
    uintptr_t start = moved_by + headers[i].p_vaddr;
    if (table - start >= headers[i].p_memsz) continue;
    object->start = start;
    object->end = start + headers[i].p_memsz;
    if ((headers[i].p_flags & PF_W) != 0)
      object->touched = NULL; /* pages may be the program's own */
    return true;
  }
  return false;
}

#endif

typedef int segment_translation_unit_is_not_empty;
