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
#include <sys/mman.h>

#include "os/call.h"
#include "os/libc.h"
#include "os/loaded.h"
#include "os/os.h"

enum { REPLACED_MOST = 32 };

struct replacement {
  ElfW(Sym) * symbol;
  ElfW(Addr) value; /* relative to where the library lies, modulo 2^64 */
};

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
  struct loaded table;
  const struct link_map *library = libc_open_loaded("libc.so.6");
  if (library == NULL || !loaded_at(library->l_addr, library->l_ld, &table)) return false;
  int protection = protection_of(library, table.symbols);
  if (protection == 0) return false;
  for (size_t i = 0; i < count; i++) {
    ElfW(Sym) * found[4];
    void *target = dlsym(RTLD_DEFAULT, names[i]);
    size_t versions = target != NULL ? loaded_find(&table, names[i], found, 4) : 0;
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
