/* elf_symbols.h - which functions an ELF file defines, and who can see them. */
#ifndef HAKMEM_ELF_SYMBOLS_H
#define HAKMEM_ELF_SYMBOLS_H

#include <stdbool.h>

enum elf_symbol {
  SYMBOL_NONE,
  SYMBOL_IMPORTED, /* taken from another object */
  SYMBOL_HIDDEN,   /* defined, for the file's own calls only; known as long as it is not stripped */
  SYMBOL_EXPORTED, /* defined, and other objects get it */
};

/** What the file says of the function of that name. SYMBOL_NONE also when it cannot be read: a file of
 * another machine, a damaged one, or one without section headers. */
enum elf_symbol elf_symbol_find(int fd, const char *name);

#endif
