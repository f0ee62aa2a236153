/* registers.h - the registers that a walk up the stack follows, by processor. */
#ifndef HAK_REGISTERS_H
#define HAK_REGISTERS_H

#include <stdint.h>

#if defined(__x86_64__)

#define STACK_HAS_TABLES 1
/* Those that a function may change and has to put back, the stack pointer and the place in the code. */
enum { CPU_BX, CPU_BP, CPU_R12, CPU_R13, CPU_R14, CPU_R15, CPU_SP, CPU_PC, REGISTERS };
enum { CPU_FRAME = CPU_BP, CPU_RETURN = CPU_PC, CPU_SAVED = CPU_SP };

/* DWARF's numbers (System V ABI, AMD64 supplement, figure 3.36); -1: not followed. */
static inline int register_of_dwarf(uint64_t number) {
  static const int8_t numbers[] = {-1, -1, -1, CPU_BX,  -1,      -1,      CPU_BP,  CPU_SP, -1,
                                   -1, -1, -1, CPU_R12, CPU_R13, CPU_R14, CPU_R15, CPU_PC};
  return number < sizeof numbers ? numbers[number] : -1;
}

/* What they hold here. */
#define REGISTERS_TAKE(r)                                                                          \
  __asm__ volatile("leaq 0(%%rip), %%rax\n\t"                                                      \
                   "movq %%rbx, 0(%0)\n\tmovq %%rbp, 8(%0)\n\tmovq %%r12, 16(%0)\n\t"              \
                   "movq %%r13, 24(%0)\n\tmovq %%r14, 32(%0)\n\tmovq %%r15, 40(%0)\n\t"            \
                   "movq %%rsp, 48(%0)\n\tmovq %%rax, 56(%0)"                                      \
                   :                                                                               \
                   : "r"(r)                                                                        \
                   : "rax", "memory")

static inline uintptr_t code_address(uintptr_t address) { return address; }

/* From what the frame register holds: where the caller's one is kept, and the return address; the end of the frame. */
enum { FRAME_CALLER = 0, FRAME_RETURN = 8, FRAME_END = 16 };

#elif defined(__aarch64__)

#define STACK_HAS_TABLES 1
enum { CPU_FP, CPU_LR, CPU_SP, CPU_PC, REGISTERS };
enum { CPU_FRAME = CPU_FP, CPU_RETURN = CPU_LR, CPU_SAVED = CPU_SP };

static inline int register_of_dwarf(uint64_t number) {
  return number == 29 ? CPU_FP : number == 30 ? CPU_LR : number == 31 ? CPU_SP : -1;
}

#define REGISTERS_TAKE(r)                                                                          \
  __asm__ volatile("adr x9, .\n\tmov x10, sp\n\tstp x29, x30, [%0]\n\tstp x10, x9, [%0, 16]"       \
                   :                                                                               \
                   : "r"(r)                                                                        \
                   : "x9", "x10", "memory")

/* A return address may be signed in its upper bits (pointer authentication), which are not used in user space. */
static inline uintptr_t code_address(uintptr_t address) {
  return address & ((UINT64_C(1) << 48) - 1);
}

enum { FRAME_CALLER = 0, FRAME_RETURN = 8, FRAME_END = 16 };

#elif defined(__riscv) && __riscv_xlen == 64

#define STACK_HAS_TABLES 1
enum { CPU_FP, CPU_LR, CPU_SP, CPU_PC, REGISTERS };
enum { CPU_FRAME = CPU_FP, CPU_RETURN = CPU_LR, CPU_SAVED = CPU_SP };

static inline int register_of_dwarf(uint64_t number) {
  return number == 8 ? CPU_FP : number == 1 ? CPU_LR : number == 2 ? CPU_SP : -1;
}

#define REGISTERS_TAKE(r)                                                                          \
  __asm__ volatile("auipc t0, 0\n\tsd s0, 0(%0)\n\tsd ra, 8(%0)\n\t"                               \
                   "sd sp, 16(%0)\n\tsd t0, 24(%0)"                                                \
                   :                                                                               \
                   : "r"(r)                                                                        \
                   : "t0", "memory")

static inline uintptr_t code_address(uintptr_t address) { return address; }

/* The frame register points to the frame's end. */
enum { FRAME_CALLER = -16, FRAME_RETURN = -8, FRAME_END = 0 };

#elif defined(__powerpc64__)

#define STACK_HAS_TABLES 1
enum { CPU_FP, CPU_LR, CPU_SP, CPU_PC, REGISTERS };
/* Each frame begins with the address of its caller's, in which the return address is kept. */
enum { CPU_FRAME = CPU_SP, CPU_RETURN = CPU_LR, CPU_SAVED = CPU_SP };

static inline int register_of_dwarf(uint64_t number) {
  return number == 31 ? CPU_FP : number == 65 ? CPU_LR : number == 1 ? CPU_SP : -1;
}

#define REGISTERS_TAKE(r)                                                                          \
  __asm__ volatile("mflr 10\n\tstd 31, 0(%0)\n\tstd 10, 8(%0)\n\tstd 1, 16(%0)\n\t"                \
                   "bcl 20, 31, .+4\n\tmflr 9\n\tstd 9, 24(%0)\n\tmtlr 10"                         \
                   :                                                                               \
                   : "b"(r)                                                                        \
                   : "r9", "r10", "lr", "memory")

static inline uintptr_t code_address(uintptr_t address) { return address; }

#else
/* Nothing follows a stack here: samples have none. */
#define STACK_HAS_TABLES 0
#endif

#endif
