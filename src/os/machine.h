/* machine.h - the machines that hakmem is made for: docs/porting.md. Nothing else is included here, since the build asks this file
 * alone, before it compiles anything. */
#ifndef HAK_MACHINE_H
#define HAK_MACHINE_H

/* clang-format off */
#if !defined(HAK_UNKNOWN_MACHINE) /* whoever ports it defines it */
#if !defined(__LP64__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "hakmem is made for 64-bit, little-endian machines: docs/porting.md"
#elif !(defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) || defined(__powerpc64__))
#error "hakmem is made for x86-64, aarch64, riscv64 and ppc64le: docs/porting.md"
#endif
#endif
/* clang-format on */

#endif
