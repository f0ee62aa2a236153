/* place.c - where things of the process lie, and what of them can be read. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/call.h"
#include "os/fault.h"
#include "os/file.h"
#include "os/futex.h"
#include "os/os.h"

/* glibc's loader exports it. */
extern void *__libc_stack_end __attribute__((weak));

uintptr_t os_stack_end(void) {
#if defined(__GLIBC__)
  if (&__libc_stack_end != NULL) return (uintptr_t)__libc_stack_end;
#endif
  return 0;
}

/* Valgrind reports system calls that read what the program has not written, as parts of every stack are. It knows this sequence
 * of instructions, which does nothing elsewhere, as a question (its manual, "The Client Request mechanism"). */
static bool is_in_valgrind(void) {
  enum { RUNNING_ON_VALGRIND = 0x1001 };
  volatile uint64_t request[6] = {RUNNING_ON_VALGRIND};
  uint64_t answer = 0;
#if defined(__x86_64__)
  __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
                   "xchgq %%rbx, %%rbx"
                   : "+d"(answer)
                   : "a"(request)
                   : "cc", "memory");
#elif defined(__aarch64__)
  register uint64_t result __asm__("x3") = 0;
  register volatile uint64_t *arguments __asm__("x4") = request;
  __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61\n\t"
                   "orr x10, x10, x10"
                   : "+r"(result)
                   : "r"(arguments)
                   : "cc", "memory");
  answer = result;
#endif
  (void)request;
  return answer != 0;
}

/* To compare a word the kernel has to read it. Filters of system calls that know the arguments let a wait for a word pass,
 * which locks are made of. The value is one that hardly any word has; a wait for no time does not sleep even then. */
bool os_is_readable(const void *address) {
  static const struct timespec no_time;
  enum { HARDLY_ANY = 0x5bd1e995 };
  if (is_in_valgrind()) return false;
  uintptr_t word = (uintptr_t)address & ~(uintptr_t)3;
  return OS_CALL(SYS_futex, word, FUTEX_WAIT_HERE, HARDLY_ANY, &no_time, NULL, 0) != -EFAULT;
}

bool os_is_mapped(const void *page) {
  if (!is_in_valgrind()) return os_is_readable(page);
  unsigned char resident;
  return OS_CALL(SYS_mincore, page, 1, &resident) != -ENOMEM;
}

/* Where it is refused for good it is asked for once: a system that watches its services would write down each try. */
static int open_pagemap(void) {
  static atomic_bool is_refused; /* relaxed: a hint */
  if (atomic_load_explicit(&is_refused, memory_order_relaxed)) return -EACCES;
  /* Of this thread: /proc/self tells nothing once the first one has ended. */
  int file = os_file_open("/proc/thread-self/pagemap", OS_FILE_READ);
  if (file == -EACCES || file == -EPERM || file == -ENOENT)
    atomic_store_explicit(&is_refused, true, memory_order_relaxed);
  return file;
}

/* How many pages from `address` on the file told of; below 0: it is refused. */
static ptrdiff_t read_pagemap(int file, uintptr_t address, uint64_t *entries, size_t pages) {
  long length = OS_CALL(SYS_pread64, file, entries, pages * sizeof *entries,
                        address / os_page_size() * sizeof *entries);
  return length < 0 ? length : length / (ptrdiff_t)sizeof *entries;
}

/* Bits of an entry: in memory; swapped; mapped by nobody else, no page of zeros. */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_OWN (UINT64_C(1) << 56)

static bool has_any(uint64_t entry) { return (entry & (PAGE_PRESENT | PAGE_SWAPPED)) != 0; }

static bool is_own(uint64_t entry) {
  return (entry & (PAGE_PRESENT | PAGE_OWN)) == (PAGE_PRESENT | PAGE_OWN);
}

/* Not by mincore(2), which filters of system calls for services leave out (systemd's @system-service), and kill for. */
bool os_resident_parts(const void *address, size_t bytes, size_t *resident, size_t *own) {
  enum { PAGES_AT_ONCE = 64 };
  uint64_t entries[PAGES_AT_ONCE];
  size_t pages = bytes / os_page_size(), done = 0;
  int file = open_pagemap();
  *resident = *own = 0;
  while (file >= 0 && done < pages) {
    size_t count = pages - done < PAGES_AT_ONCE ? pages - done : PAGES_AT_ONCE;
    uintptr_t start = (uintptr_t)address + done * os_page_size();
    if (read_pagemap(file, start, entries, count) != (ptrdiff_t)count) break;
    for (size_t i = 0; i < count; i++) {
      uint64_t entry = entries[i]; // NOLINT(clang-analyzer-*): the kernel wrote it
      if (has_any(entry)) *resident += os_page_size();
      if (is_own(entry)) *own += os_page_size();
    }
    done += count;
  }
  if (file >= 0) os_file_close(file);
  return done == pages;
}

bool os_resident_part(const void *address, size_t bytes, size_t *resident) {
  size_t own;
  return os_resident_parts(address, bytes, resident, &own);
}

enum { PRESENT_BIT = 63, WORD = 64 };

static bool word_of_pagemap(int file, uintptr_t address, size_t pages, uint64_t *word) {
  uint64_t entries[WORD];
  ptrdiff_t told = read_pagemap(file, address, entries, pages);
  for (ptrdiff_t i = 0; i < told; i++) {
    uint64_t is_present = entries[i] >> PRESENT_BIT & 1; // NOLINT(clang-analyzer-*): as above
    *word |= is_present << i;
  }
  return told >= 0;
}

/* A hole among the pages fails the whole call; then each page is asked for. A page that was swapped out does not count, as in a pagemap. */
static bool word_by_call(uintptr_t address, size_t pages, uint64_t *word) {
  unsigned char present[WORD] = {0};
  long error = OS_CALL(SYS_mincore, address, pages * os_page_size(), present);
  if (error != 0 && error != -ENOMEM) return false;
  for (size_t i = 0; i < pages; i++) {
    if (error != 0 &&
        OS_CALL(SYS_mincore, address + i * os_page_size(), os_page_size(), &present[i]) != 0)
      continue;
    *word |= (uint64_t)(present[i] & 1) << i; // NOLINT(clang-analyzer-*): as above
  }
  return true;
}

bool os_pages_present(int source, uintptr_t address, size_t pages, uint64_t *bits) {
  if (source < 0 || os_fault_now()) return false;
  for (size_t done = 0; done < pages; done += WORD) {
    size_t count = pages - done < WORD ? pages - done : WORD;
    uintptr_t start = address + done * os_page_size();
    uint64_t *word = &bits[done / WORD];
    *word = 0;
    if (source == OS_PAGES_BY_CALL ? !word_by_call(start, count, word)
                                   : !word_of_pagemap(source, start, count, word))
      return false;
  }
  return true;
}

/* The file tells it without risk (thread.c). Groups come before it: where there are hundreds it is not seen. */
static bool has_no_filter(void) {
  char text[2 * KIB];
  int file = os_file_open("/proc/thread-self/status", OS_FILE_READ);
  if (file < 0) return false;
  ptrdiff_t length = os_file_read(file, text, sizeof text - 1);
  os_file_close(file);
  text[length > 0 ? length : 0] = 0;
  return strstr(text, "\nSeccomp:\t0\n") != NULL;
}

int os_open_pages(void) {
  int file = open_pagemap();
  return file < 0 && has_no_filter() ? OS_PAGES_BY_CALL : file;
}

void os_close_pages(int source) {
  if (source >= 0 && source != OS_PAGES_BY_CALL) os_file_close(source);
}

enum { PAGES_IN_RANGE = 16 };

/* What others have put in a file's place lies in memory of no file (Documentation/admin-guide/mm/pagemap.rst): tables of a program that
 * unpacked itself would be lost. */
static bool is_of_file(uint64_t entry) {
  enum { FILE_BIT = 61 };
  return (entry >> PRESENT_BIT & 1) != 0 && (entry >> FILE_BIT & 1) != 0;
}

static void drop_file_pages(int file, struct os_range range) {
  uint64_t entries[PAGES_IN_RANGE];
  uintptr_t page = os_page_size(), start = (uintptr_t)range.address / page * page;
  size_t pages = range.bytes / page;
  if (pages > PAGES_IN_RANGE || read_pagemap(file, start, entries, pages) != (ptrdiff_t)pages)
    return;
  for (size_t from = 0, to; from < pages; from = to + 1) {
    to = from;
    while (to < pages && is_of_file(entries[to])) to++; // NOLINT(clang-analyzer-*): as above
    if (to > from) OS_CALL(SYS_madvise, start + from * page, (to - from) * page, MADV_DONTNEED);
  }
}

void os_drop_file_pages(const struct os_range *ranges, size_t count) {
  int file = open_pagemap();
  if (file < 0) return;
  for (size_t i = 0; i < count; i++) drop_file_pages(file, ranges[i]);
  os_file_close(file);
}

uintptr_t os_program_headers(void) { return os_told_at_start(AT_PHDR); }

bool os_huge_pages_are_allowed(void) {
  char text[64]; /* "always [madvise] never" */
  int file = os_file_open("/sys/kernel/mm/transparent_hugepage/enabled", OS_FILE_READ);
  if (file < 0) return false;
  ptrdiff_t length = os_file_read(file, text, sizeof text - 1);
  os_file_close(file);
  text[length > 0 ? length : 0] = 0;
  return length > 0 && strstr(text, "[never]") == NULL;
}
