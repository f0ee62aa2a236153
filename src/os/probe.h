/* probe.h - static probes (USDT): places at which bpftrace, perf, gdb or the OpenTelemetry profiler listen in a running process. They find
 * them by notes in the file (`readelf -n`).
 *
 * Each has a semaphore, a number that the kernel or the debugger raises while somebody listens. Nobody else writes it. So a probe costs a load
 * and a branch while nobody listens, and stands in slow halves only.
 */
#ifndef HAK_OS_PROBE_H
#define HAK_OS_PROBE_H

#include "os/os.h"

#if HAK_PROBES
#define LISTENS(semaphore) HAK_UNLIKELY((semaphore) != 0)
#else /* without <sys/sdt.h> there are neither semaphores nor functions */
#define LISTENS(semaphore) 0
#endif

#define PROBE(name, semaphore, parameters, arguments)                                              \
  extern volatile unsigned short semaphore HAK_HIDDEN;                                             \
  void name##_now parameters;                                                                      \
  HAK_INLINE void name parameters {                                                                \
    if (LISTENS(semaphore)) name##_now arguments;                                                  \
  }

/* What the OpenTelemetry profiler expects of an allocator that samples (opentelemetry-ebpf-profiler, design-docs/00003-memory-profiling).
 * Of sampled blocks only; `weight` is how many bytes the sample stands for. */

/** otel_memory:alloc */
PROBE(probe_alloc, otel_memory_alloc_semaphore, (const void *block, size_t size, uint64_t weight),
      (block, size, weight))
/** otel_memory:free, before anybody else can get the block */
PROBE(probe_free, otel_memory_free_semaphore, (const void *block), (block))

/** hakmem:refill: a thread's empty bin has got blocks of `size` bytes */
PROBE(probe_refill, hakmem_refill_semaphore, (const void *heap, size_t size, size_t blocks),
      (heap, size, blocks))
/** hakmem:adopt: a heap has taken over memory of another one, which sleeps or whose thread has ended */
PROBE(probe_adopt, hakmem_adopt_semaphore, (const void *heap, const void *from, size_t size),
      (heap, from, size))
/** hakmem:purge: pages went back to the system, and the addresses stay */
PROBE(probe_purge, hakmem_purge_semaphore, (const void *address, size_t bytes), (address, bytes))
/** hakmem:map */
PROBE(probe_map, hakmem_map_semaphore, (const void *address, size_t bytes), (address, bytes))
/** hakmem:unmap */
PROBE(probe_unmap, hakmem_unmap_semaphore, (const void *address, size_t bytes), (address, bytes))

#undef PROBE
#undef LISTENS

#endif
