/* file.c - see file.h. */
#define _GNU_SOURCE
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "os/fault.h"

/* Both as in the kernel's headers, which a toolchain may be older than or without (musl-gcc). The
 * number is the same on every architecture. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

bool os_files_of_own(void) {
  if (os_fault_now()) return false;
  int saved = errno;
  /* By one call, since a copy of the whole table would, until it is closed, keep open what other
   * threads close: the reader of a pipe would wait for its end. */
  bool ok = syscall(SYS_close_range, 0U, UINT_MAX, CLOSE_RANGE_UNSHARE) == 0;
  errno = saved;
  return ok;
}

int os_file_open(const char *path, enum os_file_use use) {
  if (os_fault_now()) return -EIO;
  int saved = errno;
  /* Without O_NONBLOCK a pipe that lies in a file's place would hold us for ever. */
  int flags = (use == OS_FILE_READ ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  long file;
  do file = syscall(SYS_openat, AT_FDCWD, path, flags, 0);
  while (file < 0 && errno == EINTR);
  if (file < 0) file = -errno;
  errno = saved;
  return (int)file;
}

ptrdiff_t os_file_read(int file, void *into, size_t bytes) {
  if (os_fault_now()) return -1;
  int saved = errno;
  long length;
  do length = syscall(SYS_read, file, into, bytes);
  while (length < 0 && errno == EINTR);
  errno = saved;
  return (ptrdiff_t)length;
}

bool os_file_write(int file, const void *from, size_t bytes) {
  if (os_fault_now()) return false;
  int saved = errno;
  long written;
  do written = syscall(SYS_write, file, from, bytes);
  while (written < 0 && errno == EINTR);
  errno = saved;
  return written >= 0 && (size_t)written == bytes;
}

static int write_all(int file, const char *from, size_t bytes) {
  while (bytes > 0) {
    long written = syscall(SYS_write, file, from, bytes);
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) {
      from += written;
      bytes -= (size_t)written;
    }
  }
  return 0;
}

int os_file_append(const char *path, bool follow, const void *from, size_t bytes) {
  int saved = errno, error;
  /* O_NONBLOCK as above, for opening only. */
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  long file;
  do file = syscall(SYS_openat, AT_FDCWD, path, follow ? flags : flags | O_NOFOLLOW, 0666);
  while (file < 0 && errno == EINTR);
  if (file < 0) {
    error = errno;
  } else {
    syscall(SYS_fcntl, file, F_SETFL, O_APPEND);
    error = write_all((int)file, from, bytes);
    if (syscall(SYS_close, file) != 0 && error == 0 && errno != EINTR) error = errno;
  }
  errno = saved;
  return error;
}

#define TMPFS_MAGIC 0x01021994 /* linux/magic.h */

/* Memory for all of it is taken now, so that no store finds tmpfs full (SIGBUS). Nor may the limit of file sizes be
 * touched: it would be a signal. */
static int fill_file(int file, size_t bytes) {
  struct statfs system;
  struct rlimit limit;
  if (fstatfs(file, &system) != 0) return errno;
  if (system.f_type != TMPFS_MAGIC) return EMEDIUMTYPE;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes) return EFBIG;
  long done;
  do done = syscall(SYS_fallocate, file, 0, (off_t)0, (off_t)bytes);
  while (done != 0 && errno == EINTR);
  return done != 0 ? errno : 0;
}

static long open_new(const char *path) {
  int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  long file;
  do file = syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
  while (file < 0 && errno == EINTR);
  return file;
}

void *os_file_share(const char *path, size_t bytes, int *error) {
  *error = ENOMEM;
  if (os_fault_now()) return NULL;
  int saved = errno;
  void *mapped = MAP_FAILED;
  long file = open_new(path);
  /* Of a process that has ended without a word; /dev/shm is sticky, so that only our own goes. */
  if (file < 0 && errno == EEXIST) {
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    file = open_new(path);
  }
  if (file < 0) {
    *error = errno;
  } else {
    *error = fill_file((int)file, bytes);
    if (*error == 0) {
      mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)file, 0);
      atomic_fetch_add_explicit(&os_counts.mmap, 1, memory_order_relaxed);
      if (mapped == MAP_FAILED) *error = errno;
    }
    if (mapped == MAP_FAILED) syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    syscall(SYS_close, file);
  }
  errno = saved;
  return mapped == MAP_FAILED ? NULL : mapped;
}

void os_file_remove(const char *path) {
  int saved = errno;
  syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  errno = saved;
}

void os_file_close(int file) {
  int saved = errno;
  syscall(SYS_close, file); /* not again on EINTR: the descriptor is gone then too */
  errno = saved;
}

static int64_t milliseconds_now(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum os_file_event os_file_wait(int file, int64_t milliseconds) {
  if (os_fault_now()) return OS_FILE_GONE;
  int saved = errno;
  struct pollfd waited = {.fd = file, .events = POLLPRI};
  int64_t end = milliseconds > 0 ? milliseconds_now() + milliseconds : 0, left = milliseconds;
  long ready;
  for (;;) {
    struct timespec most = {.tv_sec = (time_t)(left / 1000),
                            .tv_nsec = (long)(left % 1000) * 1000000};
    ready = syscall(SYS_ppoll, &waited, 1, milliseconds < 0 ? NULL : &most, NULL, 0);
    if (ready >= 0 || errno != EINTR) break;
    /* The kernel tells what is left of the time, but emulators do not. */
    if (milliseconds > 0) left = end - milliseconds_now();
    if (left < 0 && milliseconds >= 0) left = 0;
  }
  errno = saved;
  if (ready == 0) return OS_FILE_TIMEOUT;
  bool gone = ready < 0 || (waited.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  return gone ? OS_FILE_GONE : OS_FILE_NEWS;
}
