/* clock.c - what the kernel tells a process at its start, its functions in the process' memory, and the time by them.
 *
 * libc's clock_gettime() is one that programs replace (libfaketime), and whose replacement allocates. It is called here while
 * locks are held, so the kernel's function behind it is called instead, which is found once.
 */
#define _GNU_SOURCE
#include "os/os.h"

#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

#include "os/call.h"

#ifndef AT_SYSINFO_EHDR
#define AT_SYSINFO_EHDR 33
#endif
#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

static const uint8_t asked[] = {AT_PAGESZ, AT_BASE,         AT_SECURE,           AT_RANDOM,
                                AT_PHDR,   AT_SYSINFO_EHDR, AT_RSEQ_FEATURE_SIZE};
enum { ASKED = sizeof asked / sizeof *asked };
static _Atomic unsigned long answers[ASKED] HAK_START_DATA;
static atomic_bool answered HAK_START_DATA;

HAK_COLD void os_ask_at_start(void) {
  int saved = errno; /* of what the kernel has not told getauxval says ENOENT */
  for (unsigned i = 0; i < ASKED; i++)
    atomic_store_explicit(&answers[i], getauxval(asked[i]), memory_order_relaxed);
  /* release, pairs with the acquire below: who sees it answered sees all answers */
  atomic_store_explicit(&answered, true, memory_order_release);
  errno = saved;
}

unsigned long os_told_at_start(unsigned long type) {
  if (HAK_UNLIKELY(!atomic_load_explicit(&answered, memory_order_acquire))) os_ask_at_start();
  for (unsigned i = 0; i < ASKED; i++)
    if (asked[i] == type) return atomic_load_explicit(&answers[i], memory_order_relaxed);
  return 0;
}

/* --- the kernel's functions ------------------------------------------------------------------------------- */

struct image {
  uintptr_t shift; /* from addresses of the file to those in memory */
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *hash, *gnu_hash;
};

static bool read_image(uintptr_t base, struct image *image) {
  const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)base;
  const ElfW(Phdr) *segment = (const ElfW(Phdr) *)(base + header->e_phoff);
  const ElfW(Dyn) *entry = NULL;
  bool loaded = false;
  for (unsigned i = 0; i < header->e_phnum; i++, segment++) {
    if (segment->p_type == PT_LOAD && !loaded) {
      image->shift = base + segment->p_offset - segment->p_vaddr;
      loaded = true;
    } else if (segment->p_type == PT_DYNAMIC) {
      entry = (const ElfW(Dyn) *)(base + segment->p_offset);
    }
  }
  if (!loaded || entry == NULL) return false;
  for (; entry->d_tag != DT_NULL; entry++) {
    uintptr_t address = image->shift + entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) image->symbols = (const void *)address;
    if (entry->d_tag == DT_STRTAB) image->strings = (const void *)address;
    if (entry->d_tag == DT_HASH) image->hash = (const void *)address;
    if (entry->d_tag == DT_GNU_HASH) image->gnu_hash = (const void *)address;
  }
  return image->symbols != NULL && image->strings != NULL;
}

/* How many symbols there are. Newer kernels have the second kind of table alone. */
static uint32_t symbols_in(const struct image *image) {
  if (image->hash != NULL) return image->hash[1];
  const uint32_t *table = image->gnu_hash;
  if (table == NULL) return 0;
  uint32_t buckets = table[0], first = table[1], last = 0;
  const uint32_t *bucket = table + 4 + table[2] * (sizeof(uintptr_t) / sizeof *table);
  for (uint32_t i = 0; i < buckets; i++)
    if (bucket[i] > last) last = bucket[i];
  if (last < first) return 0;
  const uint32_t *chain = bucket + buckets;
  while ((chain[last - first] & 1) == 0) last++;
  return last + 1;
}

static bool same(const char *a, const char *b) {
  while (*a != 0 && *a == *b) a++, b++;
  return *a == *b;
}

void *os_kernel_function(const char *name) {
  struct image image = {0};
  uintptr_t base = os_told_at_start(AT_SYSINFO_EHDR);
  if (base == 0 || !read_image(base, &image)) return NULL;
  for (uint32_t i = 0, count = symbols_in(&image); i < count; i++)
    if (image.symbols[i].st_shndx != SHN_UNDEF && image.symbols[i].st_value != 0 &&
        same(image.strings + image.symbols[i].st_name, name))
      return (void *)(image.shift + image.symbols[i].st_value); // NOLINT: where the kernel put it
  return NULL;
}

/* --- time ------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__) || defined(__riscv)
#define CLOCK_NAME "__vdso_clock_gettime"
#else
#define CLOCK_NAME "__kernel_clock_gettime"
#endif

typedef int clock_function(clockid_t clock, struct timespec *now);

static int ask_kernel(clockid_t clock, struct timespec *now) {
  return (int)OS_CALL(SYS_clock_gettime, clock, now);
}

static _Atomic(clock_function *) clock_now HAK_START_DATA;

static HAK_COLD clock_function *find_clock(void) {
  clock_function *found = (clock_function *)os_kernel_function(CLOCK_NAME);
  if (found == NULL) found = ask_kernel; /* valgrind hides it, and old emulators have none */
  /* relaxed: whoever looks finds the same, in memory that is there from the start */
  atomic_store_explicit(&clock_now, found, memory_order_relaxed);
  return found;
}

void os_time(int clock, struct timespec *now) {
  clock_function *function = atomic_load_explicit(&clock_now, memory_order_relaxed);
  if (HAK_UNLIKELY(function == NULL)) function = find_clock();
  if (function(clock, now) != 0 && ask_kernel(clock, now) != 0) *now = (struct timespec){0};
}

uint64_t os_clock_ms(void) {
  struct timespec now = {0};
  os_time(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
