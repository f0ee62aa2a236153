/* locked.c - see locked.h. */
#define _GNU_SOURCE
#include "os/locked.h"

#include <errno.h>
#include <sys/mman.h>

#include "os/call.h"
#include "os/os.h"

#ifndef MREMAP_MAYMOVE
#define MREMAP_MAYMOVE 1
#endif

atomic_bool os_locks_parts;

static void lock_parts(bool now) {
  if (os_locks_parts_now() != now)
    atomic_store_explicit(&os_locks_parts, now, memory_order_relaxed);
}

/* Pages that are locked cannot be given back, and the kernel says so. Of a page that holds nothing. */
static bool is_locked(char *page) { return call_madvise(page, os_page_size(), MADV_DONTNEED) != 0; }

/* What is mapped without a lock may grow without one: a limit counts what is locked. Elsewhere than at `address` it is not wanted. */
static long grow(char *page, size_t bytes, const void *address) {
  int flags = address == NULL ? MREMAP_MAYMOVE : 0;
  long grown = OS_CALL(SYS_munlock, page, os_page_size());
  if (grown == 0) grown = call_mremap(page, os_page_size(), bytes, flags, NULL);
  if (os_call_failed(grown)) call_munmap(page, os_page_size());
  return grown;
}

long os_map_unlocked(void *address, size_t bytes, int protection, int flags) {
  long mapped = call_mmap(address, os_page_size(), protection, flags, -1);
  if (os_call_failed(mapped)) return mapped;
  char *page = (char *)mapped; // NOLINT(performance-no-int-to-ptr): the kernel's answer
  bool locked = is_locked(page);
  lock_parts(locked);
  if (locked) return grow(page, bytes, address);
  call_munmap(page, os_page_size());
  return call_mmap(address, bytes, protection, flags, -1);
}

/* Refused as well where the program has unlocked its memory since: then nothing has to be locked. */
static bool is_still_wanted(void) {
  void *page = os_map(os_page_size());
  if (page != NULL) os_unmap_unused(page, os_page_size());
  return os_locks_parts_now();
}

bool os_lock_part_now(void *address, size_t bytes) {
  return OS_CALL(SYS_mlock, address, bytes) == 0 || !is_still_wanted();
}

void os_unlock_part_now(void *address, size_t bytes) { OS_CALL(SYS_munlock, address, bytes); }

void os_locked_fork_child(void) { lock_parts(false); }
