/* freeing_thread.c - is libc about to free a thread's storage, in this thread?
 *
 * glibc does so by one function of the dynamic loader, which is known by its name and length; where it is not, all of the loader's code
 * counts. Old addresses in it are found on the stacks of most programs, from the binding of functions, of that one function hardly ever.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "os/os.h"

#if defined(__GLIBC__)

/* How far back a call by that function is looked for. What lies between are the frames of a program's wrapper of malloc or free. */
#define STACK_PART (64 * KIB)

/* The code that is looked for; both 0: not looked yet; without a loader `end` is 1. */
static _Atomic uintptr_t start HAK_START_DATA;
static _Atomic uintptr_t end HAK_START_DATA;

struct image {
  uintptr_t base, code, code_end;
  const ElfW(Sym) * symbols;
  const char *strings;
};

/* glibc leaves these addresses as the file has them where the dynamic section cannot be written. */
static uintptr_t address_in(const struct image *image, ElfW(Addr) value) {
  return value < image->base ? value + image->base : value;
}

static void read_dynamic(struct image *image, const ElfW(Dyn) * entry) {
  for (; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB)
      image->symbols = (const ElfW(Sym) *)address_in(image, entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB)
      image->strings = (const char *)address_in(image, entry->d_un.d_ptr);
  }
}

/* It starts with its ELF header, which is mapped. */
static struct image image_at(uintptr_t base) {
  struct image image = {.base = base};
  const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)base;
  const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(base + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    uintptr_t at = base + segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC) read_dynamic(&image, (const ElfW(Dyn) *)at);
    if (segments[i].p_type != PT_LOAD || (segments[i].p_flags & PF_X) == 0) continue;
    image.code = at;
    image.code_end = at + segments[i].p_memsz;
  }
  return image;
}

/* Narrows the code to the function of that name. Linkers put the names of symbols behind their table. */
static void narrow(struct image *image, const char *name) {
  const ElfW(Sym) *last = (const ElfW(Sym) *)(const void *)image->strings;
  for (const ElfW(Sym) *symbol = image->symbols; symbol != NULL && symbol + 1 <= last; symbol++) {
    if (symbol->st_size == 0 || symbol->st_shndx == SHN_UNDEF ||
        strcmp(image->strings + symbol->st_name, name) != 0)
      continue;
    image->code = image->base + symbol->st_value;
    image->code_end = image->code + symbol->st_size;
    return;
  }
}

static uintptr_t find(void) {
  /* acquire, pairs with the release below: who sees the end sees the start */
  uintptr_t found = atomic_load_explicit(&end, memory_order_acquire);
  if (found != 0) return found;
  struct image image = {.code = 0, .code_end = 1};
  uintptr_t base = getauxval(AT_BASE);
  if (base != 0) {
    image = image_at(base);
    narrow(&image, "_dl_deallocate_tls");
  }
  atomic_store_explicit(&start, image.code, memory_order_relaxed);
  atomic_store_explicit(&end, image.code_end, memory_order_release);
  return image.code_end;
}

/* Without the signature that a processor may have put into the upper bits of a return address. */
static uintptr_t plain(uintptr_t word) {
#if defined(__aarch64__)
  return word & ((UINT64_C(1) << 48) - 1);
#else
  return word;
#endif
}

/* Beyond the end of a stack lies what another thread may write to, and what is no object of the program. */
__attribute__((no_sanitize("address", "thread"))) static bool
has_word(const volatile uintptr_t *from, const volatile uintptr_t *to, uintptr_t low,
         uintptr_t high) {
  for (; from < to; from++)
    if (plain(*from) - low < high - low) return true;
  return false;
}

/* In the nearest part of the stack. */
static bool stack_has_word(uintptr_t low, uintptr_t high) {
  uintptr_t at = (uintptr_t)__builtin_frame_address(0), stop = at + STACK_PART;
  uintptr_t page = os_page_size();
  while (at < stop) {
    uintptr_t next = at / page * page + page;
    if (has_word((const volatile uintptr_t *)at, (const volatile uintptr_t *)next, low, high))
      return true;
    at = next;
    if (!os_is_readable((const void *)at)) return false;
  }
  return false;
}

HAK_NOINLINE bool os_is_freeing_thread(void) {
  uintptr_t high = find(), low = atomic_load_explicit(&start, memory_order_relaxed);
  if (low == 0) return false;
  os_let_valgrind_report(false); /* parts of every stack were not written */
  bool found = stack_has_word(low, high);
  os_let_valgrind_report(true);
  return found;
}

#else

/* musl frees nothing of the program's under the lock that pthread_create takes. */
bool os_is_freeing_thread(void) { return false; }

#endif
