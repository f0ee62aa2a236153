/* futex.h - sleeping in the kernel until a word changes, within this process. */
#ifndef HAK_OS_FUTEX_H
#define HAK_OS_FUTEX_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "os/call.h"

enum futex_end {
  FUTEX_WOKEN,     /* by a futex_wake, which nobody else sees */
  FUTEX_TIME_OVER, /* nobody woke it in `time` */
  FUTEX_NO_SLEEP,  /* the word was not `value`, or a signal came */
};

/* FUTEX_WAIT_PRIVATE and FUTEX_WAKE_PRIVATE; musl-gcc has no <linux/futex.h>. */
enum { FUTEX_WAIT_HERE = 128, FUTEX_WAKE_HERE = 129 };

/** Sleeps while *word is `value`, at most for `time` (NULL: without end). May return early. */
static inline enum futex_end futex_wait(_Atomic uint32_t *word, uint32_t value,
                                        const struct timespec *time) {
  long end = OS_CALL(SYS_futex, word, FUTEX_WAIT_HERE, value, time, NULL, 0);
  if (end == 0) return FUTEX_WOKEN;
  return end == -ETIMEDOUT ? FUTEX_TIME_OVER : FUTEX_NO_SLEEP;
}

/** Wakes up to `most` of those that sleep on the word. True: there was one. */
static inline bool futex_wake(_Atomic uint32_t *word, int most) {
  return OS_CALL(SYS_futex, word, FUTEX_WAKE_HERE, most) > 0;
}

#endif
