/* target.c - see target.h. */
#define _GNU_SOURCE
#include "target.h"

#include <errno.h>
#include <sys/uio.h>

#include "core.h"

static bool read_process(int pid, uint64_t address, void *to, size_t bytes) {
  struct iovec here = {to, bytes};
  struct iovec there = {(void *)(uintptr_t)address, bytes};
  return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool target_read(struct target target, uint64_t address, void *to, size_t bytes) {
  if (target.core == NULL) return read_process(target.pid, address, to, bytes);
  if (core_read(target.core, address, to, bytes)) return true;
  errno = EFAULT;
  return false;
}

bool target_read_kept(struct target target, uint64_t address, void *to, size_t bytes) {
  return target.core != NULL ? core_read_kept(target.core, address, to, bytes)
                             : read_process(target.pid, address, to, bytes);
}

FILE *target_maps(struct target target) {
  char path[64];
  if (target.core != NULL) return core_maps(target.core);
  snprintf(path, sizeof path, "/proc/%d/maps", target.pid);
  return fopen(path, "re");
}
