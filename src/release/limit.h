/* limit.h - near a memory limit of the container the thread that takes memory gives back what lies free anywhere.
 *
 * The helper reads the limit twice a second; at full speed a program takes hundreds of MB in that time, and the kernel kills it while
 * free memory lies in other heaps. So whoever takes memory from the system has the group's use read, each time that half of what
 * was left is taken. By the time that the last tenth of the limit is reached, all that can be given back is.
 */
#ifndef HAK_LIMIT_H
#define HAK_LIMIT_H

#include "heap/purger.h"
#include "policy/container.h"
#include "superslab/unit_os.h"

/** The groups of this process were found: has it a limit? */
void limit_note(const struct container *found);
/** The helper: reads what a thread of the program asks for (limit.c). */
void limit_serve(void);
/** The rest of limit_check. */
void limit_check_now(size_t coming);

/** After the thread has taken memory, of which `coming` bytes were not touched so far. Holds no lock. Keeps errno. */
HAK_INLINE void limit_check(size_t coming) {
  /* relaxed: a hint; limit_check_now asks again under its lock */
  if (HAK_UNLIKELY(unit_taken() >= atomic_load_explicit(&purger_limit_due, memory_order_relaxed)))
    limit_check_now(coming);
}

#endif
