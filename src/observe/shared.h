/* shared.h - HAKMEM_SHM=1: sums of the statistics in a page of tmpfs, for tools that may not read the process itself.
 *
 * /dev/shm/hakmem-PID, readable by the process' user alone, lies in memory and never on a disk. It is written at most each
 * SHARED_MS milliseconds, by the helper thread where there is one, else by slow halves of malloc and free: a process that
 * rests keeps the figures of its last slow path. api/shared.c writes it, tools/remote_shared.c reads it.
 *
 * Later versions only add at the end; `version` changes when a field means something else.
 */
#ifndef HAK_OBSERVE_SHARED_H
#define HAK_OBSERVE_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#define SHARED_DIRECTORY "/dev/shm/"
#define SHARED_NAME "hakmem-"           /* and the process' number, as the process sees it */
#define SHARED_MAGIC "hakmem figures\0" /* 16 bytes with the end */
#define SHARED_VERSION 1
#define SHARED_BYTES 4096 /* of the file; a mapping takes a page, however large that is */
enum { SHARED_MS = 100 };

struct shared_figures {
  char magic[16];
  uint32_t version, bytes;
  /* Odd while it is written; a reader that finds it the same before and after has read it whole. */
  _Atomic uint32_t sequence;
  uint32_t process;
  uint64_t written_ms; /* CLOCK_MONOTONIC */
  char release[24], variant[16];
  /* Bytes, resident or not. */
  uint64_t mapped, in_use, in_bins, pinned, cached, given, metadata, large, huge, slabs;
  uint64_t huge_live, superslabs, superslabs_peak, units_warm, heaps_active, heaps_parked;
  uint64_t acquired, released, fallback_mmap, huge_alloc, huge_fail, decommit_disabled;
  uint64_t os_mmap, os_munmap, os_mprotect, os_madvise, os_mremap, os_failed;
};
_Static_assert(sizeof(struct shared_figures) <= SHARED_BYTES, "one page");

#endif
