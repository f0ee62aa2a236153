/* in_loader.c - has libc called what is running, under a lock that pthread_create takes or waits behind?
 *
 * Two functions of glibc do so. _dl_deallocate_tls, of the loader, frees a thread's storage under the lock of the stacks. dl_iterate_phdr
 * calls a function of the program's under the lock of the list of libraries, which dlclose takes when it has the one of thread-local
 * storage already; pthread_create takes that. Both are known by name and length. Where the loader's is not, all of its code
 * counts. Old addresses in it are found on the stacks of most programs, from the binding of functions, of these two functions hardly ever.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "os/call.h"
#include "os/loaded.h"
#include "os/os.h"

#if defined(__GLIBC__)

/* How far back a call by that function is looked for. What lies between are the frames of a program's wrapper of malloc or free. */
#define STACK_PART (64 * KIB)

/* The code that is looked for. A call returns behind its first address: these two lie on the stack that is looked at. */
struct code {
  uintptr_t low, high; /* the same: none */
};
enum { IN_LOADER, IN_LIBC, CODES };
static _Atomic uintptr_t known[CODES][2] HAK_START_DATA;
static atomic_bool is_known HAK_START_DATA;

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

static struct code in_loader(void) {
  struct image image = {.code = 0};
  uintptr_t base = getauxval(AT_BASE);
  if (base != 0) {
    image = image_at(base);
    narrow(&image, "_dl_deallocate_tls");
  }
  return (struct code){image.code, image.code_end};
}

static struct code in_libc(void) {
  struct loaded libc;
  ElfW(Sym) * symbol;
  if (!loaded_libc(&libc) || loaded_find(&libc, "dl_iterate_phdr", &symbol, 1) == 0)
    return (struct code){0, 0};
  uintptr_t low = libc.base + symbol->st_value;
  return (struct code){low, low + symbol->st_size};
}

static void find(struct code codes[CODES]) {
  /* acquire, pairs with the release below: who sees that they are known sees them */
  if (atomic_load_explicit(&is_known, memory_order_acquire)) {
    for (unsigned i = 0; i < CODES; i++)
      codes[i] = (struct code){atomic_load_explicit(&known[i][0], memory_order_relaxed),
                               atomic_load_explicit(&known[i][1], memory_order_relaxed)};
    return;
  }
  codes[IN_LOADER] = in_loader();
  codes[IN_LIBC] = in_libc();
  for (unsigned i = 0; i < CODES; i++) {
    atomic_store_explicit(&known[i][0], codes[i].low, memory_order_relaxed);
    atomic_store_explicit(&known[i][1], codes[i].high, memory_order_relaxed);
  }
  atomic_store_explicit(&is_known, true, memory_order_release);
}

/* Without the signature that a processor may have put into the upper bits of a return address. */
static uintptr_t plain(uintptr_t word) {
#if defined(__aarch64__)
  return word & ((UINT64_C(1) << 48) - 1);
#else
  return word;
#endif
}

enum { PIECE_WORDS = 128 };

static bool has_word(const uintptr_t *words, size_t count, const struct code codes[CODES]) {
  for (size_t i = 0; i < count; i++)
    for (unsigned k = 0; k < CODES; k++)
      if (plain(words[i]) > codes[k].low && plain(words[i]) < codes[k].high) return true;
  return false;
}

/* In the nearest part of the stack. It may end before that, and what lies behind is another thread's, which may unmap it now: so the
 * kernel copies it. */
static bool stack_has_word(const struct code codes[CODES]) {
  uintptr_t words[PIECE_WORDS] = {0};
  uintptr_t at = (uintptr_t)__builtin_frame_address(0), stop = at + STACK_PART;
  int process = os_process();
  bool found = false;
  while (at < stop && !found) {
    size_t bytes = sizeof words - at % sizeof words;
    struct iovec here = {words, bytes}, there = {(void *)at, bytes};
    long copied = OS_CALL(SYS_process_vm_readv, process, &here, 1, &there, 1, 0);
    if (os_call_failed(copied)) break;
    found = has_word(words, (size_t)copied / sizeof *words, codes);
    at += bytes;
  }
  memset(words, 0, sizeof words);
  __asm__ volatile(""
                   :
                   : "r"(words)
                   : "memory"); /* so that the next look does not find what this one has copied */
  return found;
}

HAK_NOINLINE bool os_is_in_loader(void) {
  struct code codes[CODES];
  find(codes);
  return stack_has_word(codes);
}

#else

/* musl frees nothing of the program's under the lock that pthread_create takes, and calls nothing of it under the lock of the list. */
bool os_is_in_loader(void) { return false; }

#endif
