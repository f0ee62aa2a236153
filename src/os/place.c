/* place.c - where things of the process lie, and what of them can be read. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/auxv.h>

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
  int saved = errno;
  if (is_in_valgrind()) return false;
  errno = 0;
  (void)futex_wait((_Atomic uint32_t *)((uintptr_t)address & ~(uintptr_t)3), HARDLY_ANY, &no_time);
  bool readable = errno != EFAULT;
  errno = saved;
  return readable;
}

uintptr_t os_program_headers(void) { return getauxval(AT_PHDR); }
