/* loaded.c - see loaded.h. */
#define _GNU_SOURCE
#include "os/loaded.h"

#if defined(__GLIBC__)
#include "os/text.h"

/* The loader's list of what is in the process, for debuggers. Weak: a static program has none. */
#pragma weak _r_debug

/* glibc leaves these addresses as the file has them where the dynamic section cannot be written (RISC-V). */
static const void *address_of(const struct loaded *library, ElfW(Addr) value) {
  return (const void *)(value < library->base ? value + library->base : value);
}

bool loaded_at(ElfW(Addr) base, const ElfW(Dyn) * dynamic, struct loaded *library) {
  *library = (struct loaded){.base = base};
  for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
    const void *address = address_of(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) library->symbols = (ElfW(Sym) *)(uintptr_t)address;
    if (entry->d_tag == DT_STRTAB) library->strings = address;
    if (entry->d_tag == DT_GNU_HASH) library->hash = address;
  }
  return library->symbols != NULL && library->strings != NULL && library->hash != NULL;
}

static bool is_libc(const char *path) {
  const char *file = path;
  for (const char *at = path; *at != 0; at++)
    if (*at == '/') file = at + 1;
  return text_begins(file, "libc.so.6", sizeof "libc.so.6");
}

/* libc was there at the start, as was all that stands before it in the list: what dlopen adds and dlclose takes away comes behind. */
bool loaded_libc(struct loaded *library) {
  if (&_r_debug == NULL) return false;
  for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next)
    if (map->l_name != NULL && is_libc(map->l_name))
      return loaded_at(map->l_addr, map->l_ld, library);
  return false;
}

static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

size_t loaded_find(const struct loaded *library, const char *name, ElfW(Sym) * *found,
                   size_t most) {
  const uint32_t *table = library->hash;
  const uint32_t buckets = table[0], first = table[1], filter_words = table[2];
  const uint32_t *bucket = table + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t *chain = bucket + buckets, hash = hash_of(name);
  uint32_t index = buckets != 0 ? bucket[hash % buckets] : 0;
  size_t count = 0;
  if (index < first) return 0; /* an empty bucket is 0 */
  /* The lowest bit says that a chain ends; it is not part of the hash. */
  for (bool more = true; more && count < most; index++) {
    uint32_t there = chain[index - first];
    ElfW(Sym) *symbol = library->symbols + index;
    if ((there | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
        text_begins(library->strings + symbol->st_name, name, SIZE_MAX))
      found[count++] = symbol;
    more = (there & 1) == 0;
  }
  return count;
}
#endif
