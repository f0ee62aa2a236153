/* in_loader.c - has libc called what is running, under a lock that pthread_create takes or waits behind?
 *
 * Two functions of glibc do so. _dl_deallocate_tls, of the loader, frees a thread's storage under the lock of the stacks. dl_iterate_phdr
 * calls a function of the program's under the lock of the list of libraries, which dlclose takes when it has the one of thread-local
 * storage already; pthread_create takes that. Both are known by name and length. Where the loader's is not, all of its code
 * counts. Old addresses in it are found on the stacks of most programs, from the binding of functions, of these two functions hardly ever.
 *
 * And dlopen allocates while its list of libraries with thread-local storage is too short for their number, by which pthread_create ends the
 * program. All that opens or closes a library does so below _dl_catch_exception, which is libc's until 2.36, then the loader's.
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
enum { IN_LOADER, IN_LIBC, IN_CATCH, CODES };
static _Atomic uintptr_t known[CODES][2] HAK_START_DATA;
static atomic_bool is_known HAK_START_DATA;

/* The loader, which starts with its ELF header. */
struct image {
  struct code code;
  const ElfW(Dyn) * dynamic;
};

static struct image image_at(uintptr_t base) {
  struct image image = {.dynamic = NULL};
  const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)base;
  const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(base + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    uintptr_t at = base + segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC) image.dynamic = (const ElfW(Dyn) *)at;
    if (segments[i].p_type != PT_LOAD || (segments[i].p_flags & PF_X) == 0) continue;
    image.code = (struct code){at, at + segments[i].p_memsz};
  }
  return image;
}

/* False: the library does not define it. */
static bool find_function(const struct loaded *library, const char *name, struct code *code) {
  ElfW(Sym) * symbol;
  if (loaded_find(library, name, &symbol, 1) == 0 || symbol->st_size == 0) return false;
  uintptr_t low = library->base + symbol->st_value;
  *code = (struct code){low, low + symbol->st_size};
  return true;
}

#define CATCH "_dl_catch_exception"

static void find_in_loader(struct code codes[CODES]) {
  uintptr_t base = getauxval(AT_BASE);
  if (base == 0) return;
  struct image image = image_at(base);
  struct loaded loader;
  codes[IN_LOADER] = image.code;
  if (image.dynamic == NULL || !loaded_at(base, image.dynamic, &loader)) return;
  (void)find_function(&loader, "_dl_deallocate_tls", &codes[IN_LOADER]);
  (void)find_function(&loader, CATCH, &codes[IN_CATCH]);
}

static void find_in_libc(struct code codes[CODES]) {
  struct loaded libc;
  if (!loaded_libc(&libc)) return;
  (void)find_function(&libc, "dl_iterate_phdr", &codes[IN_LIBC]);
  (void)find_function(&libc, CATCH, &codes[IN_CATCH]);
}

static void find(struct code codes[CODES]) {
  /* acquire, pairs with the release below: who sees that they are known sees them */
  if (atomic_load_explicit(&is_known, memory_order_acquire)) {
    for (unsigned i = 0; i < CODES; i++)
      codes[i] = (struct code){atomic_load_explicit(&known[i][0], memory_order_relaxed),
                               atomic_load_explicit(&known[i][1], memory_order_relaxed)};
    return;
  }
  memset(codes, 0, CODES * sizeof *codes);
  find_in_loader(codes);
  find_in_libc(codes);
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
  /* So that the next look does not find what this one has copied. */
  memset(words, 0, sizeof words);
  __asm__ volatile("" : : "r"(words) : "memory");
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
