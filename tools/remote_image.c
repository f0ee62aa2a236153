/* remote_image.c - see remote_image.h: the look-up that a dynamic loader does, from outside. */
#define _GNU_SOURCE
#include "remote_image.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { HEADERS_MOST = 64, ENTRIES_MOST = 256, CHAIN_MOST = 4096, NAME_MOST = 64 };

/* What the library says where its tables are. */
struct tables {
  uint64_t hash, symbols, strings;
};

static bool read_tables(struct target target, uint64_t dynamic, uint64_t base,
                        struct tables *tables) {
  for (int i = 0; i < ENTRIES_MOST; i++) {
    Elf64_Dyn entry;
    if (!target_read(target, dynamic + (uint64_t)i * sizeof entry, &entry, sizeof entry))
      return false;
    /* glibc's loader has added the library's place to them, musl's has not. */
    uint64_t at = entry.d_un.d_ptr < base ? entry.d_un.d_ptr + base : entry.d_un.d_ptr;
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_GNU_HASH) tables->hash = at;
    if (entry.d_tag == DT_SYMTAB) tables->symbols = at;
    if (entry.d_tag == DT_STRTAB) tables->strings = at;
  }
  return tables->hash != 0 && tables->symbols != 0 && tables->strings != 0;
}

static bool is_named(struct target target, uint64_t text, const char *name) {
  char found[NAME_MOST];
  size_t bytes = strlen(name) + 1;
  return bytes <= sizeof found && target_read(target, text, found, bytes) &&
         memcmp(found, name, bytes) == 0;
}

static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (; *name != 0; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

/* DT_GNU_HASH: a header of four words, a filter, the buckets, and for each symbol its hash, whose last bit ends a bucket. */
static uint64_t look_up(struct target target, const struct tables *tables, uint64_t base,
                        const char *name) {
  uint32_t header[4], index, hash = hash_of(name);
  if (!target_read(target, tables->hash, header, sizeof header) || header[0] == 0) return 0;
  uint64_t buckets = tables->hash + sizeof header + header[2] * sizeof(uint64_t);
  uint64_t chain = buckets + header[0] * sizeof(uint32_t);
  if (!target_read(target, buckets + hash % header[0] * sizeof(uint32_t), &index, sizeof index))
    return 0;
  for (int i = 0; i < CHAIN_MOST && index >= header[1]; i++, index++) {
    uint32_t other;
    Elf64_Sym symbol;
    if (!target_read(target, chain + (index - header[1]) * sizeof other, &other, sizeof other))
      return 0;
    if ((other | 1) == (hash | 1)) {
      if (!target_read(target, tables->symbols + index * sizeof symbol, &symbol, sizeof symbol))
        return 0;
      if (symbol.st_shndx != SHN_UNDEF && is_named(target, tables->strings + symbol.st_name, name))
        return base + symbol.st_value;
    }
    if ((other & 1) != 0) break;
  }
  return 0;
}

struct image remote_image_find(struct target target, uint64_t start, const char *name) {
  Elf64_Ehdr header;
  Elf64_Phdr headers[HEADERS_MOST];
  const struct image none = {0};
  if (!target_read(target, start, &header, sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof headers[0] || header.e_phnum > HEADERS_MOST ||
      !target_read(target, start + header.e_phoff, headers, header.e_phnum * sizeof headers[0]))
    return none;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = UINT64_MAX, end = 0, dynamic = 0;
  for (unsigned i = 0; i < header.e_phnum; i++) {
    uint64_t stop = headers[i].p_vaddr + headers[i].p_memsz;
    if (headers[i].p_type == PT_DYNAMIC) dynamic = headers[i].p_vaddr;
    if (headers[i].p_type != PT_LOAD) continue;
    if ((headers[i].p_vaddr & -page) < first) first = headers[i].p_vaddr & -page;
    if (stop > end) end = stop;
  }
  if (dynamic == 0 || first >= end) return none;
  uint64_t base = start - first;
  struct tables tables = {0};
  if (!read_tables(target, base + dynamic, base, &tables)) return none;
  uint64_t symbol = look_up(target, &tables, base, name);
  return (struct image){symbol, base + ((end + page - 1) & -page)};
}
