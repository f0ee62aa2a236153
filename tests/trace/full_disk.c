/* full_disk.c - preloaded into the recorder: a disk with so many bytes left as HAKMEM_TEST_DISK says, which fails then
 * as HAKMEM_TEST_DISK_ERROR says (a number), or because it is full. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved */
ssize_t writev(int file, const struct iovec *parts, int count) {
  static long long left = -1;
  if (left < 0) left = atoll(getenv("HAKMEM_TEST_DISK"));
  if (left == 0) {
    const char *error = getenv("HAKMEM_TEST_DISK_ERROR");
    errno = error != NULL ? atoi(error) : ENOSPC;
    return -1;
  }
  /* A part at a time, and of the last one what there is room for. */
  size_t size = 0;
  const void *data = NULL;
  for (int i = 0; i < count && size == 0; i++) {
    size = parts[i].iov_len;
    data = parts[i].iov_base;
  }
  if (size > (size_t)left) size = (size_t)left;
  left -= (long long)size;
  return write(file, data, size);
}
