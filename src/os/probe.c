/* probe.c - see probe.h. Each probe is the first instruction of a function, where its arguments are in the registers of a call: the
 * OpenTelemetry profiler reads them there without looking at the note.
 */
#include "os/probe.h"

#if HAK_PROBES
#define _SDT_HAS_SEMAPHORES 1 // NOLINT: the name that sys/sdt.h asks for
#include <sys/sdt.h>

/* By these names sys/sdt.h knows them, in the section where tools expect them. */
#define SEMAPHORE __attribute__((section(".probes")))
volatile unsigned short otel_memory_alloc_semaphore SEMAPHORE, otel_memory_free_semaphore SEMAPHORE,
    hakmem_refill_semaphore SEMAPHORE, hakmem_adopt_semaphore SEMAPHORE,
    hakmem_purge_semaphore SEMAPHORE, hakmem_map_semaphore SEMAPHORE,
    hakmem_unmap_semaphore SEMAPHORE;

HAK_NOINLINE void probe_alloc_now(const void *block, size_t size, uint64_t weight) {
  STAP_PROBE3(otel_memory, alloc, block, size, weight);
}

HAK_NOINLINE void probe_free_now(const void *block) { STAP_PROBE1(otel_memory, free, block); }

HAK_NOINLINE void probe_refill_now(const void *heap, size_t size, size_t blocks) {
  STAP_PROBE3(hakmem, refill, heap, size, blocks);
}

HAK_NOINLINE void probe_adopt_now(const void *heap, const void *from, size_t size) {
  STAP_PROBE3(hakmem, adopt, heap, from, size);
}

HAK_NOINLINE void probe_purge_now(const void *address, size_t bytes) {
  STAP_PROBE2(hakmem, purge, address, bytes);
}

HAK_NOINLINE void probe_map_now(const void *address, size_t bytes) {
  STAP_PROBE2(hakmem, map, address, bytes);
}

HAK_NOINLINE void probe_unmap_now(const void *address, size_t bytes) {
  STAP_PROBE2(hakmem, unmap, address, bytes);
}
#endif
