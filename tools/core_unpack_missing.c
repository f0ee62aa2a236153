/* core_unpack_missing.c - compressed core files where there is no libzstd. */
#include "cli.h"
#include "core.h"

int core_unpack(int fd, const char *path) {
  (void)fd;
  complain("%s: is compressed by zstd, and this hakmem was built without libzstd; unpack it first: "
           "zstd -d %s -o FILE",
           path, path);
  return -1;
}
