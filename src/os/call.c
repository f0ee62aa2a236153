/* call.c - see call.h. */
#define _GNU_SOURCE
#include "os/call.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "os/os.h"

/* The result of a function of libc's as that of a system call. */
static long as_call(long result, int saved_errno) {
  if (result == -1) {
    result = -errno;
    errno = saved_errno;
  }
  return result;
}

#if OS_SANITIZED

long call_mmap(void *address, size_t bytes, int protection, int flags, int file) {
  int saved = errno;
  return as_call((long)mmap(address, bytes, protection, flags, file, 0), saved);
}

long call_mremap(void *from, size_t from_bytes, size_t to_bytes, int flags, void *to) {
  int saved = errno;
  return as_call((long)mremap(from, from_bytes, to_bytes, flags, to), saved);
}

long call_mprotect(void *address, size_t bytes, int protection) {
  int saved = errno;
  return as_call(mprotect(address, bytes, protection), saved);
}

long call_madvise(void *address, size_t bytes, int advice) {
  int saved = errno;
  return as_call(madvise(address, bytes, advice), saved);
}

long call_munmap(void *address, size_t bytes) {
  int saved = errno;
  return as_call(munmap(address, bytes), saved);
}

bool call_is_heard(void) { return false; }
bool call_advice_is_heard(void) { return false; }
long call_told_madvise(void *address, size_t bytes, int advice) {
  return call_madvise(address, bytes, advice);
}
long call_told_munmap(void *address, size_t bytes) { return call_munmap(address, bytes); }

#else

long call_mmap(void *address, size_t bytes, int protection, int flags, int file) {
  return OS_CALL(SYS_mmap, address, bytes, protection, flags, file, 0);
}

long call_mremap(void *from, size_t from_bytes, size_t to_bytes, int flags, void *to) {
  return OS_CALL(SYS_mremap, from, from_bytes, to_bytes, flags, to);
}

long call_mprotect(void *address, size_t bytes, int protection) {
  return OS_CALL(SYS_mprotect, address, bytes, protection);
}

long call_madvise(void *address, size_t bytes, int advice) {
  return OS_CALL(SYS_madvise, address, bytes, advice);
}

long call_munmap(void *address, size_t bytes) { return OS_CALL(SYS_munmap, address, bytes); }

/* --- does somebody listen? ------------------------------------------------------------------------------ */

/* Read as data. Other threads may write first instructions there at this moment: then either is seen. */
static bool has_bytes(const unsigned char *code, const void *expected, size_t length) {
  const unsigned char *bytes = expected;
  for (size_t i = 0; i < length; i++)
    if (((const volatile unsigned char *)code)[i] != bytes[i]) return false;
  return true;
}

#if defined(__x86_64__)

enum {
  FIRST_BYTES = 48
}; /* musl's munmap calls a function of its own first; its system call ends at byte 30 */

/* glibc: `mov $number, %eax; syscall`, behind endbr64 or not. musl's functions save registers first. Whoever replaces the first
 * instructions puts a jump there, or a breakpoint. */
static bool is_plain_call(const unsigned char *code, int number) {
  static const unsigned char mark[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
  unsigned char load[5] = {0xb8};
  memcpy(load + 1, &number, sizeof number);
  static const unsigned char call[] = {0x0f, 0x05};
  if (has_bytes(code, mark, sizeof mark)) code += sizeof mark;
  /* A program that is linked to one place and takes the address of libc's function has a jump of its own under that name. The address
   * that it jumps to lies in a table, which may be written to as others are. */
  static const unsigned char jump[] = {0xff, 0x25};
  if (has_bytes(code, jump, sizeof jump)) {
    int32_t distance;
    memcpy(&distance, code + sizeof jump, sizeof distance);
    const void *entry = code + sizeof jump + sizeof distance + distance;
    code = *(const unsigned char *const volatile *)entry;
    if (has_bytes(code, mark, sizeof mark)) code += sizeof mark;
  }
  if (has_bytes(code, load, sizeof load)) return has_bytes(code + sizeof load, call, sizeof call);
#if !defined(__GLIBC__)
  static const unsigned char push = 0x55, room[] = {0x48, 0x83, 0xec}, extend[] = {0x48, 0x63};
  if (!has_bytes(code, &push, 1) && !has_bytes(code, room, sizeof room) &&
      !has_bytes(code, extend, sizeof extend))
    return false;
  for (const unsigned char *at = code; at < code + FIRST_BYTES - sizeof load; at++)
    if (has_bytes(at, load, sizeof load)) return true;
#endif
  return false;
}

#elif defined(__aarch64__)

/* `mov x8, number; svc 0`, behind nop or bti c or neither. */
static bool is_plain_call(const unsigned char *code, int number) {
  const uint32_t none = 0xd503201f, target = 0xd503245f;
  const uint32_t call[] = {0xd2800008 | (uint32_t)number << 5, 0xd4000001};
  if (has_bytes(code, &none, sizeof none) || has_bytes(code, &target, sizeof target)) code += 4;
  return has_bytes(code, call, sizeof call);
}

#elif defined(__riscv)

/* `li a7, number; ecall` */
static bool is_plain_call(const unsigned char *code, int number) {
  const uint32_t call[] = {0x00000893 | (uint32_t)number << 20, 0x00000073};
  return has_bytes(code, call, sizeof call);
}

#elif defined(__powerpc64__)

/* `addis r2, r12, ...; addi r2, r2, ...; li r0, number`: which of two instructions calls the kernel is decided behind that. In static
 * programs without the first two. */
static bool is_plain_call(const unsigned char *code, int number) {
  const uint16_t high = 0x3c4c, low = 0x3842;
  const uint32_t load = 0x38000000 | (uint32_t)number;
  if (has_bytes(code + 2, &high, sizeof high) && has_bytes(code + 6, &low, sizeof low)) code += 8;
  return has_bytes(code, &load, sizeof load);
}

#else

static bool is_plain_call(const unsigned char *code, int number) {
  return (void)code, (void)number, false;
}

#endif

typedef int munmap_function(void *, size_t);
typedef int madvise_function(void *, size_t, int);

/* Looked up in the table of global addresses each time, which is written to as well: nothing is folded. */
static munmap_function *munmap_now(void) {
  munmap_function *function = munmap;
  __asm__ volatile("" : "+r"(function) : : "memory");
  return function;
}

static madvise_function *madvise_now(void) {
  madvise_function *function = madvise;
  __asm__ volatile("" : "+r"(function) : : "memory");
  return function;
}

static bool is_plain(uintptr_t function, int number) {
  return is_plain_call((const unsigned char *)function, number); // NOLINT: code is read as data
}

bool call_advice_is_heard(void) { return !is_plain((uintptr_t)madvise_now(), SYS_madvise); }

bool call_is_heard(void) {
  return call_advice_is_heard() || !is_plain((uintptr_t)munmap_now(), SYS_munmap);
}

static void begin_beside(struct os_beside *beside) {
  os_beside_function *function = atomic_load_explicit(&os_beside_program, memory_order_relaxed);
  beside->begun = function != NULL;
  if (function != NULL) function(beside, true);
}

static void end_beside(struct os_beside *beside) {
  if (beside->begun) atomic_load_explicit(&os_beside_program, memory_order_relaxed)(beside, false);
}

long call_told_madvise(void *address, size_t bytes, int advice) {
  madvise_function *function = madvise_now();
  if (HAK_LIKELY(is_plain((uintptr_t)function, SYS_madvise)))
    return call_madvise(address, bytes, advice);
  struct os_beside beside;
  begin_beside(&beside);
  int saved = errno; /* by a function of libc's as well */
  long result = as_call(function(address, bytes, advice), saved);
  errno = saved;
  end_beside(&beside);
  return result;
}

long call_told_munmap(void *address, size_t bytes) {
  munmap_function *function = munmap_now();
  if (HAK_LIKELY(is_plain((uintptr_t)function, SYS_munmap))) return call_munmap(address, bytes);
  struct os_beside beside;
  begin_beside(&beside);
  int saved = errno; /* by a function of libc's as well */
  long result = as_call(function(address, bytes), saved);
  errno = saved;
  end_beside(&beside);
  return result;
}

#endif

_Atomic(os_beside_function *) os_beside_program HAK_START_DATA;
