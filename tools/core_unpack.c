/* core_unpack.c - a core that systemd-coredump has compressed: unpacked into a file without a name, with holes where there are zeros. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "cli.h"
#include "core.h"

enum { PAGE = 4096, WINDOW_LOG_MOST = 27 }; /* 128 MiB: what zstd itself takes without being told */

static const char *folder(void) {
  const char *named = getenv("TMPDIR");
  return named != NULL && named[0] != 0 ? named : "/var/tmp"; /* /tmp is often memory */
}

static int make_file(void) {
  char path[PATH_MAX];
  int fd = open(folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  /* Some file systems have no files without a name. */
  snprintf(path, sizeof path, "%s/hakmem-core-XXXXXX", folder());
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  return fd;
}

struct unpacking {
  int from, to;
  ZSTD_DStream *stream;
  char *in, *out;
  size_t in_room, out_room;
  uint64_t size;      /* unpacked so far */
  const char *failed; /* NULL: nothing */
};

static bool is_zero(const char *bytes, size_t count) {
  return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

static bool write_all(int fd, const char *bytes, size_t count, uint64_t at) {
  while (count > 0) {
    ssize_t wrote = pwrite(fd, bytes, count, (off_t)at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes += wrote;
    count -= (size_t)wrote;
    at += (uint64_t)wrote;
  }
  return true;
}

static bool put(struct unpacking *unpacking, size_t count) {
  for (size_t at = 0; at < count;) {
    size_t part = PAGE - (unpacking->size + at) % PAGE;
    if (part > count - at) part = count - at;
    if (!is_zero(unpacking->out + at, part) &&
        !write_all(unpacking->to, unpacking->out + at, part, unpacking->size + at)) {
      unpacking->failed = strerror(errno);
      return false;
    }
    at += part;
  }
  unpacking->size += count;
  return true;
}

/* All that one piece of the file gives; false: it is damaged, or the disk is full. */
static bool unpack_piece(struct unpacking *unpacking, size_t bytes) {
  ZSTD_inBuffer in = {unpacking->in, bytes, 0};
  bool more = true;
  while (in.pos < in.size || more) {
    ZSTD_outBuffer out = {unpacking->out, unpacking->out_room, 0};
    size_t left = ZSTD_decompressStream(unpacking->stream, &out, &in);
    if (ZSTD_isError(left)) {
      unpacking->failed = ZSTD_getErrorName(left);
      return false;
    }
    if (out.pos > 0 && !put(unpacking, out.pos)) return false;
    more = out.pos == out.size;
  }
  return true;
}

static void unpack(struct unpacking *unpacking) {
  off_t at = 0;
  ssize_t got;
  while ((got = pread(unpacking->from, unpacking->in, unpacking->in_room, at)) > 0) {
    if (!unpack_piece(unpacking, (size_t)got)) return;
    at += got;
  }
}

int core_unpack(int fd, const char *path) {
  struct unpacking unpacking = {.from = fd, .to = make_file(), .stream = ZSTD_createDStream()};
  unpacking.in_room = ZSTD_DStreamInSize();
  unpacking.out_room = ZSTD_DStreamOutSize();
  unpacking.in = malloc(unpacking.in_room);
  unpacking.out = malloc(unpacking.out_room);
  if (unpacking.to < 0) {
    complain("%s: is compressed, and cannot be unpacked in %s (TMPDIR names another directory): %s",
             path, folder(), strerror(errno));
  } else if (unpacking.stream == NULL || unpacking.in == NULL || unpacking.out == NULL) {
    complain("out of memory");
    close(unpacking.to);
    unpacking.to = -1;
  } else {
    ZSTD_DCtx_setParameter(unpacking.stream, ZSTD_d_windowLogMax, WINDOW_LOG_MOST);
    unpack(&unpacking);
    /* What was unpacked before a fault is a cut core. */
    if (unpacking.failed != NULL)
      complain("note: %s: unpacking it in %s ended after %llu bytes: %s", path, folder(),
               (unsigned long long)unpacking.size, unpacking.failed);
    if (ftruncate(unpacking.to, (off_t)unpacking.size) != 0) unpacking.size = 0;
  }
  ZSTD_freeDStream(unpacking.stream);
  free(unpacking.in);
  free(unpacking.out);
  return unpacking.to;
}
