/* locked.h - memory of a program that has asked for all that it will map to be locked (mlockall, MCL_FUTURE), and has a limit of locked
 * memory (RLIMIT_MEMLOCK).
 *
 * The kernel locks, and counts, whole mappings; ours are of 2 MiB and more. Once the limit refuses one, mappings are made without a
 * lock, and each part is locked when it is handed out, until it is free again (docs/decisions/0044).
 */
#ifndef HAK_OS_LOCKED_H
#define HAK_OS_LOCKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "os/os.h"

/* Set when the limit refuses a mapping. Falls with the first mapping, or refused lock, after the program has unlocked its memory. relaxed: a
 * thread that does not know yet hands out a part of a mapping that it knows of from a lock, or one that is locked whole. */
extern atomic_bool os_locks_parts HAK_HIDDEN;
HAK_INLINE bool os_locks_parts_now(void) {
  return HAK_UNLIKELY(atomic_load_explicit(&os_locks_parts, memory_order_relaxed));
}

bool os_lock_part_now(void *address, size_t bytes);
void os_unlock_part_now(void *address, size_t bytes);

/** Before whole pages are handed out. False: the limit has no room for them. Pages that are locked already do not count again. */
HAK_INLINE bool os_lock_part(void *address, size_t bytes) {
  return !os_locks_parts_now() || os_lock_part_now(address, bytes);
}

/** After whole pages have come back. */
HAK_INLINE void os_unlock_part(void *address, size_t bytes) {
  if (os_locks_parts_now()) os_unlock_part_now(address, bytes);
}

/** For os.c: mmap(2) where the limit has refused to lock all of it, as system calls return. */
long os_map_unlocked(void *address, size_t bytes, int protection, int flags);

/** In the child of a fork nothing is locked. */
void os_locked_fork_child(void);

#endif
