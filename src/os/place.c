/* place.c - where things of the process lie, and what of them can be read. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

/* glibc's loader exports it. */
extern void *__libc_stack_end __attribute__((weak));

uintptr_t os_stack_end(void) {
#if defined(__GLIBC__)
  if (&__libc_stack_end != NULL) return (uintptr_t)__libc_stack_end;
#endif
  return 0;
}

/* The kernel reads the new mask before it looks at what is to be done with it, which is nothing it knows. */
bool os_is_readable(const void *address) {
  enum { UNKNOWN_HOW = -1, MASK_BYTES = 8 };
  int saved = errno;
  (void)syscall(SYS_rt_sigprocmask, UNKNOWN_HOW, address, NULL, MASK_BYTES);
  bool readable = errno != EFAULT;
  errno = saved;
  return readable;
}

uintptr_t os_program_headers(void) { return getauxval(AT_PHDR); }
