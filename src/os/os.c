/* os.c - system calls for memory, time and environment. */
#define _GNU_SOURCE
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/call.h"
#include "os/fault.h"
#include "os/file.h"
#include "os/locked.h"
#include "os/probe.h"
#include "os/text.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MREMAP_MAYMOVE
#define MREMAP_MAYMOVE 1
#define MREMAP_FIXED 2
#endif

struct os_counts os_counts HAK_START_DATA;

static void count_call(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Common end of every memory call. */
static bool succeeded(bool ok) {
  if (HAK_UNLIKELY(!ok)) count_call(&os_counts.failed);
  return ok;
}

/* EAGAIN: too much memory would be locked, and nothing else. Explicit huge pages are never locked, but count. */
static long map_now(void *address, size_t bytes, int protection, int flags) {
  bool may_grow = (flags & MAP_HUGETLB) == 0;
  long p = -EAGAIN;
  if (!may_grow || !os_locks_parts_now()) p = call_mmap(address, bytes, protection, flags, -1);
  return p == -EAGAIN && may_grow ? os_map_unlocked(address, bytes, protection, flags) : p;
}

/* By its heuristic (vm.overcommit_memory=0) the kernel refuses a mapping longer than all memory and swap, and malloc is to fail then. It
 * does not refuse one with MAP_NORESERVE, which ours have for fork (docs/scale.md). So it is asked without, and the answer not kept. From
 * 1 GiB on: the two calls are nothing beside writing so much. EAGAIN: locked memory, see map_now. */
static bool kernel_commits(size_t bytes) {
  long p = call_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (os_call_failed(p)) return p == -EAGAIN;
  call_munmap((char *)p, bytes); // NOLINT(performance-no-int-to-ptr): the kernel's answer
  return true;
}

static void *map_with(void *address, size_t bytes, int protection, int flags) {
  count_call(&os_counts.mmap);
  long p = -ENOMEM;
  bool may = bytes < GIB || (flags & MAP_NORESERVE) == 0 || kernel_commits(bytes);
  if (may && !os_fault_now())
    p = map_now(address, bytes, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS);
  if (!succeeded(!os_call_failed(p))) return NULL;
  probe_map((void *)p, bytes); // NOLINT(performance-no-int-to-ptr): the kernel's answer
  return (void *)p;            // NOLINT(performance-no-int-to-ptr)
}

void *os_map(size_t bytes) { return map_with(NULL, bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE); }

void *os_map_at(void *address, size_t bytes) {
  void *p = map_with(address, bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE | MAP_FIXED_NOREPLACE);
  if (p != NULL && p != address) { /* a kernel before 4.17 takes the flag for a hint */
    os_unmap_unused(p, bytes);
    return NULL;
  }
  return p;
}

void *os_map_huge_pages(size_t bytes, size_t page_bytes) {
#ifdef MAP_HUGETLB
  /* With reservation: without it the call succeeds on an empty pool, and the first touch is SIGBUS. */
  int log2_page = 63 - __builtin_clzll((unsigned long long)page_bytes);
  return map_with(NULL, bytes, PROT_READ | PROT_WRITE, MAP_HUGETLB | (log2_page << MAP_HUGE_SHIFT));
#else
  (void)bytes;
  (void)page_bytes;
  return NULL;
#endif
}

typedef long unmap_call(void *address, size_t bytes);

static bool unmap_by(unmap_call *call, void *address, size_t bytes) {
  count_call(&os_counts.munmap);
  bool ok = !os_fault_now() && call(address, bytes) == 0;
  if (ok) probe_unmap(address, bytes);
  return succeeded(ok);
}

bool os_unmap(void *address, size_t bytes) { return unmap_by(call_told_munmap, address, bytes); }

bool os_unmap_unused(void *address, size_t bytes) { return unmap_by(call_munmap, address, bytes); }

bool os_is_heard(void) { return call_is_heard(); }

bool os_move(void *from, size_t from_bytes, void *to, size_t to_bytes) {
  count_call(&os_counts.mremap);
  bool ok = !os_fault_now() &&
            call_mremap(from, from_bytes, to_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)to;
  return succeeded(ok);
}

void *os_resize(void *address, size_t bytes, size_t new_bytes) {
  count_call(&os_counts.mremap);
  long p = -ENOMEM;
  bool may = new_bytes < bytes + GIB || kernel_commits(new_bytes - bytes);
  if (may && !os_fault_now()) p = call_mremap(address, bytes, new_bytes, MREMAP_MAYMOVE, NULL);
  return succeeded(!os_call_failed(p)) ? (void *)p : NULL; // NOLINT(performance-no-int-to-ptr)
}

bool os_protect(void *address, size_t bytes, bool accessible) {
  count_call(&os_counts.mprotect);
  int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  return succeeded(!os_fault_now() && call_mprotect(address, bytes, protection) == 0);
}

typedef long advise_call(void *address, size_t bytes, int advice);

static bool advise_by(advise_call *call, void *address, size_t bytes, int advice) {
  count_call(&os_counts.madvise);
  return succeeded(!os_fault_now() && call(address, bytes, advice) == 0);
}

static bool advise(void *address, size_t bytes, int advice) {
  return advise_by(call_madvise, address, bytes, advice);
}

static bool purge(advise_call *call, void *address, size_t bytes, int advice) {
  bool ok = advise_by(call, address, bytes, advice);
  if (ok) probe_purge(address, bytes);
  return ok;
}

bool os_decommit(void *address, size_t bytes) {
  return purge(call_told_madvise, address, bytes, MADV_DONTNEED);
}

bool os_decommit_again(void *address, size_t bytes) {
  return purge(call_madvise, address, bytes, MADV_DONTNEED);
}

bool os_decommit_lazily(void *address, size_t bytes) {
  return purge(call_told_madvise, address, bytes, MADV_FREE);
}

bool os_advise_huge(void *address, size_t bytes) { return advise(address, bytes, MADV_HUGEPAGE); }
bool os_advise_small(void *address, size_t bytes) {
  return advise(address, bytes, MADV_NOHUGEPAGE);
}

bool os_split(void *address) { return advise(address, os_page_size(), MADV_COLD); }

/* `unknown`: the kernel has no such advice (an old one, valgrind), and is asked no more. EINVAL may mean this range: none says which. */
static bool advise_if_known(atomic_bool *unknown, void *address, size_t bytes, int advice) {
  if (atomic_load_explicit(unknown, memory_order_relaxed)) return false;
  count_call(&os_counts.madvise);
  if (os_fault_now()) return succeeded(false);
  long error = call_madvise(address, bytes, advice);
  if (error == -EINVAL && call_madvise(address, 0, advice) == -EINVAL)
    atomic_store_explicit(unknown, true, memory_order_relaxed);
  return succeeded(error == 0);
}

bool os_populate(void *address, size_t bytes) {
  static atomic_bool unknown; /* before 5.14 */
  return advise_if_known(&unknown, address, bytes, MADV_POPULATE_WRITE);
}

bool os_collapse(void *address, size_t bytes) {
  static atomic_bool unknown; /* before 6.1 */
  return advise_if_known(&unknown, address, bytes, MADV_COLLAPSE);
}

/* The kernel's name for the calling process where it wants a descriptor of one. */
#define SELF_PIDFD (-10001)
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

static atomic_bool process_madvise_unknown;

/* So that no copy is needed, for which a small stack has no room. */
_Static_assert(sizeof(struct os_range) == sizeof(struct iovec) &&
                   offsetof(struct os_range, bytes) == offsetof(struct iovec, iov_len),
               "a range is what the kernel takes");

static long advise_ranges(const struct os_range *ranges, size_t count) {
  return OS_CALL(SYS_process_madvise, SELF_PIDFD, ranges, count, MADV_DONTNEED, 0);
}

/* Is the call itself refused: unknown (before 5.10), not for this advice (before 6.13), or not by this name? EINVAL may be about the first
 * range, which the program has locked. Of a range of no bytes the kernel asks only whether it knows the advice. */
static bool refuses_all(long error, const struct os_range *range) {
  if (error == -EINVAL) return advise_ranges(&(struct os_range){range->address, 0}, 1) < 0;
  return error == -ENOSYS || error == -EPERM || error == -EBADF;
}

/* Of how many ranges from the first on the pages have gone; `count` of them are given, 0 are left for other calls. */
static size_t decommit_at_once(const struct os_range *ranges, size_t count) {
  if (atomic_load_explicit(&process_madvise_unknown, memory_order_relaxed)) return 0;
  count_call(&os_counts.madvise);
  if (os_fault_now()) return succeeded(false), 0;
  long done = advise_ranges(ranges, count);
  if (done < 0) {
    if (refuses_all(done, ranges))
      atomic_store_explicit(&process_madvise_unknown, true, memory_order_relaxed);
    return succeeded(false), 0;
  }
  size_t whole = 0;
  for (size_t bytes = (size_t)done; whole < count && bytes >= ranges[whole].bytes; whole++)
    bytes -= ranges[whole].bytes;
  return whole;
}

bool os_decommit_all(const struct os_range *ranges, size_t count) {
  enum { AT_ONCE = 64 };
  bool all = true, heard = call_advice_is_heard();
  for (size_t from = 0; from < count;) {
    size_t n = count - from < AT_ONCE ? count - from : AT_ONCE;
    size_t done = n > 1 && !heard ? decommit_at_once(&ranges[from], n) : 0;
    for (size_t i = 0; i < done; i++) probe_purge(ranges[from + i].address, ranges[from + i].bytes);
    from += done;
    /* The one that the kernel did not finish (it is locked, or all calls are one by one): by itself. */
    if (done < n && !os_decommit(ranges[from].address, ranges[from].bytes)) all = false;
    from += done < n;
  }
  return all;
}

size_t os_limit(int resource) {
  struct {
    uint64_t now, most;
  } limit = {0, 0};
  if (OS_CALL(SYS_prlimit64, 0, resource, NULL, &limit) != 0) return SIZE_MAX;
  return (size_t)limit.now; /* without a limit it is the largest number */
}

size_t os_address_space_limit(void) { return os_limit(RLIMIT_AS); }

static bool has_limit(int resource) { return os_limit(resource) != SIZE_MAX; }

bool os_memory_is_limited(void) { return has_limit(RLIMIT_AS) || has_limit(RLIMIT_DATA); }

/* What the kernel gives without a hint at higher addresses. */
#if defined(__x86_64__) || defined(__riscv) || defined(__powerpc64__)
#define PROGRAM_BYTES ((size_t)1 << 47)
#elif defined(__aarch64__)
#define PROGRAM_BYTES ((size_t)1 << 48)
#else
#define PROGRAM_BYTES ((size_t)1 << 56)
#endif

size_t os_longest_mapping(void) {
  size_t limit = os_address_space_limit();
  return limit < PROGRAM_BYTES ? limit : PROGRAM_BYTES;
}

static bool map_and_unmap(size_t bytes) {
  void *p = os_map(bytes);
  return p != NULL && (os_unmap_unused(p, bytes), true);
}

bool os_refuses_all(void) {
  if (os_limit(RLIMIT_MEMLOCK) != 0) return false;
  long page =
      call_mmap(NULL, os_page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (os_call_failed(page)) return page == -EAGAIN;
  call_munmap((char *)page, os_page_size()); // NOLINT(performance-no-int-to-ptr)
  return false;
}

bool os_would_map(size_t bytes) { return map_and_unmap(bytes) || !map_and_unmap(os_page_size()); }

size_t os_page_size(void) {
  static _Atomic size_t page HAK_START_DATA;
  size_t bytes = atomic_load_explicit(&page, memory_order_relaxed);
  if (HAK_UNLIKELY(bytes == 0)) {
    bytes = os_told_at_start(AT_PAGESZ);
    if (bytes == 0) bytes = 4 * KIB;
    atomic_store_explicit(&page, bytes, memory_order_relaxed);
  }
  return bytes;
}

/* Where the main thread's stack begins the kernel put argc, argv and the environment. The loader calls a
 * preloaded malloc before libc has set `environ`, so options would be missed without this. */
char **os_environment(void) {
  if (environ != NULL) return environ;
  long *argc = (long *)os_stack_end();
  return argc != NULL ? (char **)(argc + 1) + *argc + 1 : NULL;
}

const char *os_env(const char *name) {
  char **variable = os_environment();
  size_t length = text_length(name);
  for (; variable != NULL && *variable != NULL; variable++)
    if (text_begins(*variable, name, length) && (*variable)[length] == '=')
      return *variable + length + 1;
  return NULL;
}

/* Ends it with a 0. Past libc's wrappers (file.h), which are points where a thread can be cancelled, too. */
static ptrdiff_t read_small(const char *path, char *text, size_t room) {
  int file = os_file_open(path, OS_FILE_READ);
  if (file < 0) return -1;
  ptrdiff_t length = os_file_read(file, text, room - 1);
  os_file_close(file);
  text[length > 0 ? length : 0] = 0;
  return length;
}

void os_random(uint64_t numbers[2]) {
  enum { NEVER_WAIT = 1, BYTES = 2 * sizeof(uint64_t) }; /* GRND_NONBLOCK */
  if (OS_CALL(SYS_getrandom, numbers, BYTES, NEVER_WAIT) != BYTES) {
    const void *given = (const void *)os_told_at_start(AT_RANDOM); /* 16 bytes */
    if (given != NULL) memcpy(numbers, given, BYTES);
    numbers[0] ^= os_clock_ms() << 20;
  }
}

bool os_is_secure(void) { return os_told_at_start(AT_SECURE) != 0; }

static size_t read_number(const char **at) {
  size_t number = 0;
  for (; **at >= '0' && **at <= '9'; ++*at) number = number * 10 + (size_t)(**at - '0');
  return number;
}

size_t os_memory_bytes(size_t *mapped) {
  char text[128];
  const char *at = text;
  *mapped = 0;
  /* Of this thread: /proc/self says 0 once the first one has ended. */
  if (read_small("/proc/thread-self/statm", text, sizeof text) <= 0) return 0;
  *mapped = read_number(&at) * os_page_size();
  at += *at == ' ';
  return read_number(&at) * os_page_size();
}

size_t os_resident_bytes(void) {
  size_t mapped;
  return os_memory_bytes(&mapped);
}

/* Not by getrusage: its ru_maxrss is that of the program before execve, too. */
size_t os_peak_resident_bytes(char *scratch, size_t room) {
  static const char label[] = "\nVmHWM:";
  if (read_small("/proc/thread-self/status", scratch, room) <= 0) return 0;
  const char *at = strstr(scratch, label);
  if (at == NULL) return 0;
  at += sizeof label - 1;
  at += strspn(at, " \t");
  return read_number(&at) * KIB;
}

void os_program_name(char *name, size_t room) {
  const char *known = program_invocation_short_name;
  ptrdiff_t length;
  name[0] = 0;
  if (known != NULL && *known != 0) {
    length = (ptrdiff_t)text_length_within(known, room - 1);
    memcpy(name, known, (size_t)length);
    name[length] = 0;
  } else if ((length = read_small("/proc/self/comm", name, room)) > 0) {
    name[text_length_within(name, (size_t)length - (name[length - 1] == '\n'))] = 0;
  }
}

size_t os_working_directory(char *path, size_t room) {
  long length = OS_CALL(SYS_getcwd, path, room); /* with the 0 at its end */
  return length > 1 && path[0] == '/' ? (size_t)length - 1 : 0;
}
