/* node.c - on which memory node a thread runs, told without a system call.
 *
 * Linux 6.3 and later write the number into the area for restartable sequences that glibc (2.35 and later) registers for each
 * thread; it is read here and never written to. Where that is missing, the vdso of some machines tells.
 */
#define _GNU_SOURCE
#include "os/os.h"

#include <sys/auxv.h>

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

#if defined(__GLIBC__)

/* Weak: since glibc 2.35, and not in every static program. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));

/* The start of the kernel's struct rseq; C libraries' headers know less of it than kernels fill in. */
struct rseq_area {
  uint32_t cpu_id_start;
  int32_t cpu_id; /* below 0: this thread's is not registered */
  uint64_t critical_section;
  uint32_t flags, node_id;
};

enum source { UNKNOWN, AREA, VDSO };

static enum source find_source(void) {
  const size_t needed = offsetof(struct rseq_area, node_id) + sizeof(uint32_t);
  bool fills_in = &__rseq_offset != NULL && os_told_at_start(AT_RSEQ_FEATURE_SIZE) >= needed;
  return fills_in ? AREA : VDSO;
}

#if defined(__x86_64__) || defined(__powerpc64__)
#if defined(__x86_64__)
#define CPU_NAME "__vdso_getcpu"
#else
#define CPU_NAME "__kernel_getcpu"
#endif

typedef long cpu_function(unsigned *cpu, unsigned *node, void *unused);

/* On which node nobody says. */
static long no_node(unsigned *cpu, unsigned *node, void *unused) {
  return (void)cpu, (void)node, (void)unused, -1;
}
#endif

/* Elsewhere getcpu() is a system call. */
static unsigned ask_vdso(void) {
  unsigned node = 0;
#if defined(__x86_64__) || defined(__powerpc64__)
  static _Atomic(cpu_function *) function;
  /* relaxed: whoever looks finds the same */
  cpu_function *ask = atomic_load_explicit(&function, memory_order_relaxed);
  if (HAK_UNLIKELY(ask == NULL)) {
    ask = (cpu_function *)os_kernel_function(CPU_NAME);
    if (ask == NULL) ask = no_node;
    atomic_store_explicit(&function, ask, memory_order_relaxed);
  }
  if (ask(NULL, &node, NULL) != 0) node = 0;
#endif
  return node;
}

unsigned os_node(void) {
  static _Atomic uint8_t source HAK_START_DATA;
  /* relaxed: whoever looks finds the same */
  uint8_t from = atomic_load_explicit(&source, memory_order_relaxed);
  if (HAK_UNLIKELY(from == UNKNOWN)) {
    from = (uint8_t)find_source();
    atomic_store_explicit(&source, from, memory_order_relaxed);
  }
  if (HAK_LIKELY(from == AREA)) {
    const volatile struct rseq_area *area =
        (const void *)(os_thread_pointer() + (uintptr_t)__rseq_offset);
    if (HAK_LIKELY(area->cpu_id >= 0)) return area->node_id;
  }
  return ask_vdso();
}

#else

unsigned os_node(void) { return 0; }

#endif
