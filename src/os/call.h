/* call.h - system calls past libc's functions (docs/decisions/0039).
 *
 * Programs replace libc's functions, by LD_PRELOAD or in the program itself, and what takes their place may allocate. It would
 * come back into this allocator while a lock is held that it needs. So the library makes its system calls itself, and calls of
 * libc only what is no system call. These calls leave errno alone: a result from -4095 to -1 is a negative errno.
 *
 * musl-gcc and old toolchains lack some of the kernel's headers; numbers come from <sys/syscall.h>.
 */
#ifndef HAK_OS_CALL_H
#define HAK_OS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* AddressSanitizer and ThreadSanitizer have to see what is mapped: memory calls go through their functions there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OS_SANITIZED 1
#endif
#endif
#ifndef OS_SANITIZED
#define OS_SANITIZED 0
#endif

#define CALL_INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)

CALL_INLINE long os_call3(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
}

CALL_INLINE long os_call6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

#elif defined(__aarch64__) || defined(__riscv)

#if defined(__aarch64__)
#define CALL_NUMBER "x8"
#define CALL_ARGUMENT(n) "x" #n
#define CALL_INSTRUCTION "svc 0"
#else
#define CALL_NUMBER "a7"
#define CALL_ARGUMENT(n) "a" #n
#define CALL_INSTRUCTION "ecall"
#endif

CALL_INLINE long os_call6(long number, long a, long b, long c, long d, long e, long f) {
  register long which __asm__(CALL_NUMBER) = number;
  register long a0 __asm__(CALL_ARGUMENT(0)) = a;
  register long a1 __asm__(CALL_ARGUMENT(1)) = b;
  register long a2 __asm__(CALL_ARGUMENT(2)) = c;
  register long a3 __asm__(CALL_ARGUMENT(3)) = d;
  register long a4 __asm__(CALL_ARGUMENT(4)) = e;
  register long a5 __asm__(CALL_ARGUMENT(5)) = f;
  __asm__ volatile(CALL_INSTRUCTION
                   : "+r"(a0)
                   : "r"(which), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
                   : "memory");
  return a0;
}

CALL_INLINE long os_call3(long number, long a, long b, long c) {
  return os_call6(number, a, b, c, 0, 0, 0);
}

#elif defined(__powerpc64__)

/* An error is a bit of the condition register there, and the number is positive. */
CALL_INLINE long os_call6(long number, long a, long b, long c, long d, long e, long f) {
  register long r0 __asm__("r0") = number;
  register long r3 __asm__("r3") = a;
  register long r4 __asm__("r4") = b;
  register long r5 __asm__("r5") = c;
  register long r6 __asm__("r6") = d;
  register long r7 __asm__("r7") = e;
  register long r8 __asm__("r8") = f;
  __asm__ volatile("sc\n\tbns+ 1f\n\tneg 3, 3\n1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
                   :
                   : "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
  return r3;
}

CALL_INLINE long os_call3(long number, long a, long b, long c) {
  return os_call6(number, a, b, c, 0, 0, 0);
}

#else /* a machine that somebody ports to (machine.h): libc's function will do at first */

#include <errno.h>
#include <unistd.h>

CALL_INLINE long os_call6(long number, long a, long b, long c, long d, long e, long f) {
  int saved = errno;
  long result = syscall(number, a, b, c, d, e, f);
  if (result == -1) result = -errno;
  errno = saved;
  return result;
}

CALL_INLINE long os_call3(long number, long a, long b, long c) {
  return os_call6(number, a, b, c, 0, 0, 0);
}

#endif

/** OS_CALL(number, up to six arguments, numbers or pointers). */
#define OS_CALL(...)                                                                               \
  CALL_PICK(__VA_ARGS__, CALL_6, CALL_5, CALL_4, CALL_3, CALL_2, CALL_1, CALL_0, )(__VA_ARGS__)
#define CALL_PICK(n, a, b, c, d, e, f, pick, ...) pick
#define CALL_0(n) os_call3(n, 0, 0, 0)
#define CALL_1(n, a) os_call3(n, (long)(a), 0, 0)
#define CALL_2(n, a, b) os_call3(n, (long)(a), (long)(b), 0)
#define CALL_3(n, a, b, c) os_call3(n, (long)(a), (long)(b), (long)(c))
#define CALL_4(n, a, b, c, d) os_call6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define CALL_5(n, a, b, c, d, e)                                                                   \
  os_call6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define CALL_6(n, a, b, c, d, e, f)                                                                \
  os_call6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/** Is a result that is an address a negative errno? */
CALL_INLINE bool os_call_failed(long result) { return (unsigned long)result > -4096UL; }

/* --- memory (call.c): functions, which tests put others in the place of ------------------------------- */

/** The address, or a negative errno. `file`: -1 for memory of no file. */
long call_mmap(void *address, size_t bytes, int protection, int flags, int file);
long call_mremap(void *from, size_t from_bytes, size_t to_bytes, int flags, void *to);
/** 0, or a negative errno. */
long call_mprotect(void *address, size_t bytes, int protection);
long call_madvise(void *address, size_t bytes, int advice);
long call_munmap(void *address, size_t bytes);

/* Libraries for RDMA and MPI (UCX, libfabric) put functions of theirs in the place of munmap and madvise, to learn that pages go which a
 * network card still reads or writes. They do so before the program starts (LD_PRELOAD), later (in the tables of loaded libraries), or by
 * other first instructions in libc's function. What a program has seen is given back through these two where somebody listens. */

/** Does somebody listen just now: is what our calls of munmap or madvise lead to anything but libc's plain system call? Asked for each
 * piece that is given back, since a library may be loaded at any time. */
bool call_is_heard(void);
/** The same of madvise alone. */
bool call_advice_is_heard(void);
/** As call_madvise and call_munmap, told to whoever listens: it may allocate meanwhile, as os_beside_program provides. The caller holds no
 * lock that malloc waits for, except its own heap's. */
long call_told_madvise(void *address, size_t bytes, int advice);
long call_told_munmap(void *address, size_t bytes);

#endif
