/* elf_symbols.c - see elf_symbols.h. The file is mapped, and every place in it checked against its size. */
#define _GNU_SOURCE
#include "elf_symbols.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "elf_file.h"

struct image {
  const char *bytes;
  uint64_t size;
};

/* `count` records of `size` bytes at `offset`, or NULL when they lie outside the file. */
static const void *part(const struct image *image, uint64_t offset, uint64_t count, uint64_t size) {
  if (offset > image->size || offset % _Alignof(uint64_t) != 0) return NULL;
  return count <= (image->size - offset) / size ? image->bytes + offset : NULL;
}

static bool is_function(const Elf64_Sym *symbol) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

static enum elf_symbol kind_of(const Elf64_Sym *symbol, bool dynamic) {
  if (symbol->st_shndx == SHN_UNDEF) return dynamic ? SYMBOL_IMPORTED : SYMBOL_NONE;
  unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);
  bool seen = dynamic && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
              (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
  return seen ? SYMBOL_EXPORTED : SYMBOL_HIDDEN;
}

static enum elf_symbol find_in_table(const struct image *image, const Elf64_Shdr *table,
                                     const Elf64_Shdr *strings, const char *name) {
  uint64_t count = table->sh_size / sizeof(Elf64_Sym);
  const Elf64_Sym *symbols = part(image, table->sh_offset, count, sizeof *symbols);
  if (symbols == NULL || strings->sh_offset > image->size ||
      strings->sh_size > image->size - strings->sh_offset)
    return SYMBOL_NONE;
  const char *text = image->bytes + strings->sh_offset;
  size_t length = strlen(name) + 1;
  enum elf_symbol best = SYMBOL_NONE;
  for (uint64_t i = 0; i < count; i++) {
    if (!is_function(&symbols[i]) || symbols[i].st_name >= strings->sh_size ||
        strings->sh_size - symbols[i].st_name < length ||
        memcmp(text + symbols[i].st_name, name, length) != 0)
      continue;
    enum elf_symbol kind = kind_of(&symbols[i], table->sh_type == SHT_DYNSYM);
    if (kind > best) best = kind;
  }
  return best;
}

static enum elf_symbol find_in_image(const struct image *image, const char *name) {
  const Elf64_Ehdr *header = part(image, 0, 1, sizeof *header);
  if (header == NULL || header->e_shentsize != sizeof(Elf64_Shdr)) return SYMBOL_NONE;
  unsigned count = header->e_shnum;
  const Elf64_Shdr *sections = part(image, header->e_shoff, count, sizeof *sections);
  if (sections == NULL) return SYMBOL_NONE;
  /* The short table first: who imports a function defines none, and the long one need not be read. */
  static const uint32_t tables[] = {SHT_DYNSYM, SHT_SYMTAB};
  for (int table = 0; table < 2; table++) {
    for (unsigned i = 0; i < count; i++) {
      if (sections[i].sh_type != tables[table] || sections[i].sh_link >= count) continue;
      enum elf_symbol kind =
          find_in_table(image, &sections[i], &sections[sections[i].sh_link], name);
      if (kind != SYMBOL_NONE) return kind;
    }
  }
  return SYMBOL_NONE;
}

enum elf_symbol elf_symbol_find(int fd, const char *name) {
  struct elf_file file;
  struct stat status;
  elf_file_read(fd, &file);
  if (!file.is_elf || !file.is_ours || file.damaged || fstat(fd, &status) != 0) return SYMBOL_NONE;
  struct image image = {.size = (uint64_t)status.st_size};
  void *bytes = mmap(NULL, (size_t)image.size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) return SYMBOL_NONE;
  image.bytes = bytes;
  enum elf_symbol kind = find_in_image(&image, name);
  munmap(bytes, (size_t)image.size);
  return kind;
}
