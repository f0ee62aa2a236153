/* futex.h - sleeping in the kernel until a word changes, within this process. errno is the caller's affair. */
#ifndef HAK_OS_FUTEX_H
#define HAK_OS_FUTEX_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum futex_end {
  FUTEX_WOKEN,     /* by a futex_wake, which nobody else sees */
  FUTEX_TIME_OVER, /* nobody woke it in `time` */
  FUTEX_NO_SLEEP,  /* the word was not `value`, or a signal came */
};

/** Sleeps while *word is `value`, at most for `time` (NULL: without end). May return early. */
static inline enum futex_end futex_wait(_Atomic uint32_t *word, uint32_t value,
                                        const struct timespec *time) {
  enum { WAIT_PRIVATE = 128 }; /* FUTEX_WAIT_PRIVATE; musl-gcc has no <linux/futex.h> */
  if (syscall(SYS_futex, word, WAIT_PRIVATE, value, time, NULL, 0) == 0) return FUTEX_WOKEN;
  return errno == ETIMEDOUT ? FUTEX_TIME_OVER : FUTEX_NO_SLEEP;
}

/** Wakes up to `most` of those that sleep on the word. True: there was one. */
static inline bool futex_wake(_Atomic uint32_t *word, int most) {
  enum { WAKE_PRIVATE = 129 }; /* FUTEX_WAKE_PRIVATE */
  return syscall(SYS_futex, word, WAKE_PRIVATE, most, NULL, NULL, 0) > 0;
}

#endif
