/* symbols.c - see symbols.h.
 *
 * The dynamic loader finds a function in a library by the library's table of symbols, in memory. What a symbol stands
 * for is one word in it, which is written here. The table lies in pages of the file that nobody else writes, so they
 * become private to the process: at most those from the first name to the last, 60 KiB in glibc 2.36.
 */
#define _GNU_SOURCE
#include "os/symbols.h"

#include <dlfcn.h>

#if defined(__GLIBC__)
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "os/call.h"
#include "os/libc.h"
#include "os/os.h"

enum { REPLACED_MOST = 32 };

struct replacement {
  ElfW(Sym) * symbol;
  ElfW(Addr) value; /* relative to where the library lies, modulo 2^64 */
};

struct table {
  ElfW(Addr) base;
  ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *hash; /* DT_GNU_HASH */
};

/* glibc leaves these addresses as the file has them where the dynamic section cannot be written (RISC-V). */
static const void *address_of(const struct table *table, ElfW(Addr) value) {
  return (const void *)(value < table->base ? value + table->base : value);
}

static bool table_of(const struct link_map *library, struct table *table) {
  *table = (struct table){.base = library->l_addr};
  for (const ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; entry++) {
    const void *address = address_of(table, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) table->symbols = (ElfW(Sym) *)(uintptr_t)address;
    if (entry->d_tag == DT_STRTAB) table->strings = address;
    if (entry->d_tag == DT_GNU_HASH) table->hash = address;
  }
  return table->symbols != NULL && table->strings != NULL && table->hash != NULL;
}

static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

/* The symbols of that name, one for each version. Returns how many there are, `most` at most. */
static size_t find(const struct table *table, const char *name, ElfW(Sym) * *found, size_t most) {
  const uint32_t buckets = table->hash[0], first = table->hash[1], filter_words = table->hash[2];
  const uint32_t *bucket = table->hash + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t *chain = bucket + buckets, hash = hash_of(name);
  uint32_t index = buckets != 0 ? bucket[hash % buckets] : 0;
  size_t count = 0;
  if (index < first) return 0; /* an empty bucket is 0 */
  /* The lowest bit says that a chain ends; it is not part of the hash. */
  for (bool more = true; more && count < most; index++) {
    uint32_t there = chain[index - first];
    ElfW(Sym) *symbol = table->symbols + index;
    if ((there | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
        strcmp(table->strings + symbol->st_name, name) == 0)
      found[count++] = symbol;
    more = (there & 1) == 0;
  }
  return count;
}

/* How the pages with the table are mapped; 0: the file does not say. */
static int protection_of(const struct link_map *library, const void *address) {
  Dl_info info;
  if (dladdr(library->l_ld, &info) == 0) return 0;
  const ElfW(Ehdr) *header = info.dli_fbase;
  const ElfW(Phdr) *segment = (const ElfW(Phdr) *)((uintptr_t)header + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    ElfW(Addr) from = library->l_addr + segment[i].p_vaddr;
    if (segment[i].p_type != PT_LOAD || (ElfW(Addr))address - from >= segment[i].p_memsz) continue;
    return (segment[i].p_flags & PF_R ? PROT_READ : 0) |
           (segment[i].p_flags & PF_W ? PROT_WRITE : 0) |
           (segment[i].p_flags & PF_X ? PROT_EXEC : 0);
  }
  return 0;
}

static bool write_all(const struct replacement *list, size_t count, int protection) {
  uintptr_t page = os_page_size(), low = UINTPTR_MAX, high = 0;
  for (size_t i = 0; i < count; i++) {
    uintptr_t address = (uintptr_t)list[i].symbol;
    if (address < low) low = address;
    if (address + sizeof(ElfW(Sym)) > high) high = address + sizeof(ElfW(Sym));
  }
  low &= ~(page - 1);
  bool writable = (protection & PROT_WRITE) != 0;
  if (!writable && call_mprotect((void *)low, high - low, protection | PROT_WRITE) != 0)
    return false;
  /* relaxed: another thread's look-up at this moment finds the old function or the new one. A word is written whole. */
  for (size_t i = 0; i < count; i++)
    __atomic_store_n(&list[i].symbol->st_value, list[i].value, __ATOMIC_RELAXED);
  if (!writable) call_mprotect((void *)low, high - low, protection);
  return true;
}

/* 0: not done yet; a process' number: one of its threads does it; DONE, REFUSED. A thread that waits looks whose number it
 * is: the child of a fork goes on where its parent's thread is not. No lock, since the loader's is taken beside it. */
enum { DONE = -1, REFUSED = -2 };
static _Atomic int state;

bool symbols_replace_in_libc(const char *const *names, size_t count) {
  /* acquire: who sees that it is done sees the table as it was written. */
  int seen = atomic_load_explicit(&state, memory_order_acquire);
  if (seen < 0) return seen == DONE;

  /* All that asks the loader comes first: its lock may be another's that waits for this function. */
  struct replacement list[REPLACED_MOST];
  size_t length = 0;
  struct table table;
  const struct link_map *library = libc_open_loaded("libc.so.6");
  if (library == NULL || !table_of(library, &table)) return false;
  int protection = protection_of(library, table.symbols);
  if (protection == 0) return false;
  for (size_t i = 0; i < count; i++) {
    ElfW(Sym) * found[4];
    void *target = dlsym(RTLD_DEFAULT, names[i]);
    size_t versions = target != NULL ? find(&table, names[i], found, 4) : 0;
    for (size_t k = 0; k < versions && length < REPLACED_MOST; k++)
      list[length++] = (struct replacement){found[k], (ElfW(Addr))target - table.base};
  }

  int mine = os_process();
  seen = 0;
  while (!atomic_compare_exchange_weak_explicit(&state, &seen, mine, memory_order_acquire,
                                                memory_order_acquire)) {
    if (seen < 0) return seen == DONE;
    if (seen == mine) {
      os_yield();
      seen = 0;
    } /* else 0, or the number of a parent: tried again with what was seen */
  }
  bool done = write_all(list, length, protection);
  /* release: as said above. */
  atomic_store_explicit(&state, done ? DONE : REFUSED, memory_order_release);
  return done;
}
#endif
