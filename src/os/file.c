/* file.c - see file.h. */
#define _GNU_SOURCE
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "os/call.h"
#include "os/fault.h"
#include "os/text.h"

/* Both as in the kernel's headers, which a toolchain may be older than or without (musl-gcc). The
 * number is the same on every architecture. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

/* The calling thread has a table of its own, where no number is anybody else's. */
static _Thread_local bool own_files __attribute__((tls_model("initial-exec")));

bool os_files_of_own(void) {
  if (own_files) return true;
  if (os_fault_now()) return false;
  /* By one call, since a copy of the whole table would, until it is closed, keep open what other
   * threads close: the reader of a pipe would wait for its end. */
  own_files = OS_CALL(SYS_close_range, 0U, UINT_MAX, CLOSE_RANGE_UNSHARE) == 0;
  return own_files;
}

bool os_files_are_safe(void) {
  return own_files || os_has_one_thread_for_sure() || os_process_threads() == 1;
}

/* A number that was just opened may be another thread's by now, which has put a file of its own in its place (dup2). Of the kernel's files the path tells
 * which is meant; other systems may say different things of a path and of a descriptor. */
static bool can_tell(const char *path, struct stat *meant) {
  bool kernels = text_begins(path, "/proc/", sizeof "/proc/" - 1) ||
                 text_begins(path, "/sys/", sizeof "/sys/" - 1);
  return kernels && !os_has_one_thread_for_sure() && os_file_status(AT_FDCWD, path, meant, 0);
}

static bool is_meant(long file, const struct stat *meant) {
  struct stat seen; /* written by the kernel; to clear it would call libc */
  return os_file_status((int)file, "", &seen, AT_EMPTY_PATH) &&
         seen.st_dev == meant->st_dev && // NOLINT(clang-analyzer-*)
         seen.st_ino == meant->st_ino;
}

/* Programs close a low number and count on getting it again from the next open (what daemons do with 0 to 2). So no low number stays ours
 * for longer than these calls: a program gets another one only if it opens a file between two of them.
 *
 * A process begins with room for 64 files. Beyond it the kernel makes a larger table, and in a process with
 * threads it waits until no processor can be reading the old one (synchronize_rcu): 10 to 20 ms in a malloc
 * (docs/decisions/0039). */
enum { HIGH_ROOM = 16, HIGH = 64 - HIGH_ROOM };

static long move_up(long file, const char *path) {
  if (file < 0 || file >= HIGH || own_files) return file;
  long high = OS_CALL(SYS_fcntl, file, F_DUPFD_CLOEXEC, HIGH);
  if (high == -EINVAL) { /* a limit below that: as high as it allows */
    size_t limit = os_limit(RLIMIT_NOFILE);
    if (limit > HIGH_ROOM && limit <= HIGH)
      high = OS_CALL(SYS_fcntl, file, F_DUPFD_CLOEXEC, limit - HIGH_ROOM);
  }
  if (high < 0) return file; /* all numbers are taken */
  struct stat meant;
  bool told = can_tell(path, &meant);
  if (told && !is_meant(high, &meant)) { /* both are the program's */
    OS_CALL(SYS_close, high);
    return -EBUSY;
  }
  if (!told || is_meant(file, &meant)) OS_CALL(SYS_close, file);
  return high;
}

static long open_at(const char *path, int flags, int permissions) {
  long file;
  do file = OS_CALL(SYS_openat, AT_FDCWD, path, flags, permissions);
  while (file == -EINTR);
  return move_up(file, path);
}

int os_file_open(const char *path, enum os_file_use use) {
  if (os_fault_now()) return -EIO;
  /* Without O_NONBLOCK a pipe that lies in a file's place would hold us for ever. */
  int flags = (use == OS_FILE_READ ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  return (int)open_at(path, flags, 0);
}

ptrdiff_t os_file_read(int file, void *into, size_t bytes) {
  if (os_fault_now()) return -1;
  long length;
  do length = OS_CALL(SYS_read, file, into, bytes);
  while (length == -EINTR);
  return length < 0 ? -1 : (ptrdiff_t)length;
}

bool os_file_write(int file, const void *from, size_t bytes) {
  if (os_fault_now()) return false;
  long written;
  do written = OS_CALL(SYS_write, file, from, bytes);
  while (written == -EINTR);
  return written >= 0 && (size_t)written == bytes;
}

static int write_all(long file, const char *from, size_t bytes, size_t *done) {
  for (*done = 0; *done < bytes;) {
    long written = OS_CALL(SYS_write, file, from + *done, bytes - *done);
    if (written < 0 && written != -EINTR) return (int)-written;
    if (written > 0) *done += (size_t)written;
  }
  return 0;
}

int os_file_finish(int file) {
  long error = OS_CALL(SYS_close, file);
  if (os_fault_now()) return EIO;
  return error != -EINTR ? (int)-error : 0;
}

int os_file_append(const char *path, bool follow, const void *from, size_t bytes) {
  /* O_NONBLOCK as above, for opening only. */
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  long file = open_at(path, follow ? flags : flags | O_NOFOLLOW, 0666);
  if (file < 0) return (int)-file;
  OS_CALL(SYS_fcntl, file, F_SETFL, O_APPEND);
  /* Beyond the limit of file sizes it would be a signal. A pipe has no end, and no limit. */
  long end = OS_CALL(SYS_lseek, file, 0L, SEEK_END);
  size_t written, limit = os_limit(RLIMIT_FSIZE);
  bool fits = end < 0 || ((size_t)end <= limit && bytes <= limit - (size_t)end);
  int error = fits ? write_all(file, from, bytes, &written) : EFBIG;
  int closed = os_file_finish((int)file);
  return error != 0 ? error : closed;
}

#define TMPFS_MAGIC 0x01021994 /* linux/magic.h */

/* Memory for all of it is taken now, so that no store finds tmpfs full (SIGBUS). Nor may the limit of file sizes be
 * touched: it would be a signal. */
static int fill_file(long file, size_t bytes) {
  struct statfs system; /* written by the kernel, which the analyzer does not know */
  long error = OS_CALL(SYS_fstatfs, file, &system);
  if (error != 0) return (int)-error;
  if (system.f_type != TMPFS_MAGIC) return EMEDIUMTYPE; // NOLINT(clang-analyzer-*)
  if (os_limit(RLIMIT_FSIZE) < bytes) return EFBIG;
  do error = OS_CALL(SYS_fallocate, file, 0, (off_t)0, (off_t)bytes);
  while (error == -EINTR);
  return (int)-error;
}

static long open_new(const char *path) {
  return open_at(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
}

static void *map_file(long file, size_t bytes, int *error) {
  *error = fill_file(file, bytes);
  if (*error != 0) return NULL;
  long mapped = call_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)file);
  atomic_fetch_add_explicit(&os_counts.mmap, 1, memory_order_relaxed);
  if (!os_call_failed(mapped)) return (void *)mapped; // NOLINT(performance-no-int-to-ptr)
  *error = (int)-mapped;
  return NULL;
}

/* In place of one of a process that has ended without a word. Where others may write the directory is sticky, so that only our own goes. */
static long open_anew(const char *path) {
  long file = open_new(path);
  if (file != -EEXIST) return file;
  os_file_remove(path);
  return open_new(path);
}

int os_file_make(const char *path) {
  if (os_fault_now()) return -EIO;
  return (int)open_new(path);
}

int os_file_put(int file, const void *from, size_t bytes, size_t *written) {
  *written = 0;
  if (os_fault_now()) return EIO;
  return write_all(file, from, bytes, written);
}

int os_file_put_at(int file, const void *from, size_t bytes, uint64_t at) {
  if (os_fault_now()) return EIO;
  long written;
  do written = OS_CALL(SYS_pwrite64, file, from, bytes, at);
  while (written == -EINTR);
  if (written < 0) return (int)-written;
  return (size_t)written == bytes ? 0 : EIO;
}

bool os_file_get_at(int file, void *into, size_t bytes, uint64_t at) {
  if (os_fault_now()) return false;
  long length;
  do length = OS_CALL(SYS_pread64, file, into, bytes, at);
  while (length == -EINTR);
  return length >= 0 && (size_t)length == bytes;
}

int os_file_rename(const char *from, const char *to) {
  if (os_fault_now()) return EIO;
  return (int)-OS_CALL(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

void *os_file_share(const char *path, size_t bytes, int *error) {
  *error = ENOMEM;
  if (os_fault_now()) return NULL;
  long file = open_anew(path);
  if (file < 0) {
    *error = (int)-file;
    return NULL;
  }
  void *mapped = map_file(file, bytes, error);
  if (mapped == NULL) os_file_remove(path);
  OS_CALL(SYS_close, file);
  return mapped;
}

void os_file_remove(const char *path) { os_file_remove_from(AT_FDCWD, path); }

void os_file_remove_from(int directory, const char *name) {
  (void)OS_CALL(SYS_unlinkat, directory, name, 0);
}

_Static_assert(offsetof(struct os_file_entry, name) == 19, "as the kernel's linux_dirent64");

ptrdiff_t os_file_entries(int directory, void *into, size_t bytes) {
  if (os_fault_now()) return -1;
  return OS_CALL(SYS_getdents64, directory, into, bytes);
}

bool os_file_status(int directory, const char *name, struct stat *status, int flags) {
#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) || defined(__powerpc64__)
  return OS_CALL(SYS_newfstatat, directory, name, status, flags) == 0;
#else
  int saved = errno;
  bool known = fstatat(directory, name, status, flags) == 0;
  errno = saved;
  return known;
#endif
}

_Static_assert(OS_FILE_HERE == AT_FDCWD, "as the kernel counts it");

enum os_file_kind os_file_changed(int directory, const char *name, uint64_t *nanoseconds) {
  const uint64_t second = 1000000000;
  struct stat status = {0};
  if (os_fault_now()) return OS_FILE_OTHER;
  if (!os_file_status(directory, name, &status, AT_SYMLINK_NOFOLLOW)) return OS_FILE_NONE;
  if (!S_ISREG(status.st_mode)) return OS_FILE_OTHER;
  *nanoseconds = (uint64_t)status.st_mtim.tv_sec * second + (uint64_t)status.st_mtim.tv_nsec;
  return OS_FILE_ORDINARY;
}

void os_file_close(int file) {
  (void)OS_CALL(SYS_close, file); /* not again on EINTR: the descriptor is gone then too */
}

static int64_t milliseconds_now(void) {
  struct timespec now = {0};
  os_time(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum os_file_event os_file_wait(int file, int64_t milliseconds) {
  if (os_fault_now()) return OS_FILE_GONE;
  struct pollfd waited = {.fd = file, .events = POLLPRI};
  int64_t end = milliseconds > 0 ? milliseconds_now() + milliseconds : 0, left = milliseconds;
  long ready;
  for (;;) {
    struct timespec most = {.tv_sec = (time_t)(left / 1000),
                            .tv_nsec = (long)(left % 1000) * 1000000};
    ready = OS_CALL(SYS_ppoll, &waited, 1, milliseconds < 0 ? NULL : &most, NULL, 0);
    if (ready != -EINTR) break;
    /* The kernel tells what is left of the time, but emulators do not. */
    if (milliseconds > 0) left = end - milliseconds_now();
    if (left < 0 && milliseconds >= 0) left = 0;
  }
  if (ready == 0) return OS_FILE_TIMEOUT;
  bool gone = ready < 0 || (waited.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  return gone ? OS_FILE_GONE : OS_FILE_NEWS;
}
