/* guard_pages.c - pages that cannot be touched.
 *
 * Linux 6.13 and later mark them in the page tables (MADV_GUARD_INSTALL): no mapping is cut, and MADV_DONTNEED, MADV_FREE, fork and
 * mremap keep the marks. Elsewhere, and in memory that is locked, they are made inaccessible (PROT_NONE), as a mapping of their own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "os/call.h"
#include "os/fault.h"
#include "os/os.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

/* Set once a kernel refuses MADV_GUARD_INSTALL as unknown: asked no more. */
static atomic_bool marks_unknown;
/* Is there any guard that is a mark, or a mapping of its own? Where a filter of system calls refuses madvise there is no mark to remove. */
static atomic_bool any_marked, any_cut;

static bool is_set(const atomic_bool *flag) {
  return atomic_load_explicit(flag, memory_order_relaxed);
}

static void set(atomic_bool *flag) { atomic_store_explicit(flag, true, memory_order_relaxed); }

static void count(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static bool protect(void *address, size_t bytes, int protection) {
  count(&os_counts.mprotect);
  return !os_fault_now() && call_mprotect(address, bytes, protection) == 0;
}

/* Of a range of no bytes the kernel asks only whether it knows the advice; what it refuses otherwise may be locked memory. */
static bool is_unknown(long error, void *address) {
  return error == -EINVAL && call_madvise(address, 0, MADV_GUARD_INSTALL) != 0;
}

static bool guard(void *address, size_t bytes) {
  if (!is_set(&marks_unknown)) {
    count(&os_counts.madvise);
    if (os_fault_now()) return false;
    long error = call_madvise(address, bytes, MADV_GUARD_INSTALL);
    if (error == 0) {
      if (!is_set(&any_marked)) set(&any_marked);
      return true;
    }
    if (is_unknown(error, address)) set(&marks_unknown);
  }
  bool ok = protect(address, bytes, PROT_NONE);
  if (ok) set(&any_cut);
  return ok;
}

bool os_guard(void *address, size_t bytes) {
  bool ok = guard(address, bytes);
  if (!ok) count(&os_counts.failed);
  return ok;
}

/* A mapping of its own, not a mark: gdb's gcore reads a mapping at once, and writes zeros for all of it when a page in it is marked. So a
 * core would have nothing of what is known of memory (docs/decisions/0048). There are few: two for some hundred SuperSlabs. */
static void guard_metadata(void *address, size_t bytes) {
  if (!protect(address, bytes, PROT_NONE)) count(&os_counts.failed);
}

void *os_map_guarded(size_t bytes) {
  size_t page = os_page_size();
  bytes = (bytes + page - 1) & ~(page - 1);
  char *p = os_map(bytes + 2 * page);
  if (p == NULL) return NULL;
  guard_metadata(p, page);
  guard_metadata(p + page + bytes, page);
  return p + page;
}

bool os_unmap_guarded(void *address, size_t bytes) {
  size_t page = os_page_size();
  bytes = (bytes + page - 1) & ~(page - 1);
  return os_unmap_unused((char *)address - page, bytes + 2 * page);
}

#if HAK_HARDENED

static bool unmark(void *address, size_t bytes) {
  count(&os_counts.madvise);
  return !os_fault_now() && call_madvise(address, bytes, MADV_GUARD_REMOVE) == 0;
}

bool os_map_afresh(void *address, size_t bytes) {
  count(&os_counts.mmap);
  return !os_fault_now() &&
         !os_call_failed(call_mmap(address, bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1));
}

bool os_guards_cut(void) { return is_set(&marks_unknown) || is_set(&any_cut); }

/* Has anything been closed? relaxed, as the others: who opens a span has it by a lock from the thread that closed it. */
static atomic_bool any_closed;

bool os_close(void *address, size_t bytes) {
  /* First: a child that is forked in between has to know. */
  if (!is_set(&any_closed)) set(&any_closed);
  bool ok = protect(address, bytes, PROT_NONE);
  if (!ok) count(&os_counts.failed);
  return ok;
}

bool os_open(void *address, size_t bytes) {
  bool ok = protect(address, bytes, PROT_READ | PROT_WRITE);
  if (!ok) count(&os_counts.failed);
  return ok;
}

static bool any_is_protected(void) { return is_set(&any_cut) || is_set(&any_closed); }

bool os_unguard(void *address, size_t bytes) {
  bool ok;
  /* A filter of system calls may have come to refuse madvise. */
  if (is_set(&any_marked) && !unmark(address, bytes)) ok = os_map_afresh(address, bytes);
  else ok = !any_is_protected() || protect(address, bytes, PROT_READ | PROT_WRITE);
  if (!ok) count(&os_counts.failed);
  return ok;
}

#endif
