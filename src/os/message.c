/* message.c - lines for people, and statistics: to the stderr that the program was started with, never to a file that
 * got the number of a closed one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/call.h"
#include "os/os.h"

struct file_id {
  dev_t device;
  ino_t inode;
};

/* Past libc's wrapper, which programs replace (fakeroot), and then allocate in it. */
HAK_AT_LOAD static bool identify(int file, struct file_id *id) {
  struct stat status = {0};
#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) || defined(__powerpc64__)
  if (OS_CALL(SYS_fstat, file, &status) != 0) return false;
#else
  int saved = errno;
  bool known = fstat(file, &status) == 0;
  errno = saved;
  if (!known) return false;
#endif
  *id = (struct file_id){status.st_dev, status.st_ino};
  return true;
}

_Atomic(void (*)(void)) os_when_dying HAK_START_DATA;
_Atomic(void (*)(void)) os_last_words HAK_START_DATA;
_Thread_local bool os_dying;

enum { NOT_LOOKED, NONE, KNOWN };
static int first_stderr_state HAK_START_DATA;
static struct file_id first_stderr HAK_START_DATA;
static int kept_stderr = -1;

HAK_AT_LOAD void os_note_stderr(void) {
  first_stderr_state = identify(STDERR_FILENO, &first_stderr) ? KNOWN : NONE;
}

/* The one system call that every program pays: later nobody could tell which file stderr was. */
__attribute__((constructor)) HAK_AT_LOAD static void at_load(void) {
  if (first_stderr_state == NOT_LOOKED) os_note_stderr();
}

static bool is_first_stderr(int file) {
  struct file_id id;
  return first_stderr_state == KNOWN && file >= 0 && identify(file, &id) &&
         id.device == first_stderr.device && id.inode == first_stderr.inode;
}

void os_keep_stderr(void) {
  enum { OUT_OF_THE_WAY = 100 }; /* programs count on getting low numbers */
  at_load();                     /* of options that are read before the constructors */
  if (is_first_stderr(STDERR_FILENO))
    kept_stderr = (int)OS_CALL(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
}

/* Leaves what could not be written. By the plain system call: no point at which a thread can be cancelled. */
static void write_to(int file, const char **text, size_t *length) {
  while (*length > 0) {
    long written = OS_CALL(SYS_write, file, *text, *length);
    if (written == -EINTR) continue;
    if (written <= 0) return;
    *text += written;
    *length -= (size_t)written;
  }
}

void os_write_error(const char *text, size_t length) {
  at_load(); /* of a message before the constructors */
  if (is_first_stderr(STDERR_FILENO)) write_to(STDERR_FILENO, &text, &length);
  if (length > 0 && is_first_stderr(kept_stderr)) write_to(kept_stderr, &text, &length);
}

void os_write_error_here(const char *text, size_t length) {
  write_to(STDERR_FILENO, &text, &length);
}

/* Not libc's texts: those are translated, which allocates. */
const char *os_error_text(int error) {
  switch (error) {
  case EACCES:
  case EPERM:
    return "not permitted";
  case ENOENT:
  case ENOTDIR:
    return "no such directory";
  case EEXIST:
    return "something else has the name";
  case EISDIR:
    return "it is a directory";
  case ELOOP:
    return "it is a symbolic link, or there are too many";
  case EROFS:
    return "read-only file system";
  case ENOSPC:
  case EDQUOT:
    return "no space left";
  case EFBIG:
    return "it would be longer than the limit of file sizes";
  case EMFILE:
  case ENFILE:
    return "too many open files";
  case ENXIO:
    return "nobody reads from the other end";
  case ENAMETOOLONG:
    return "the name is too long";
  default:
    return "input or output failed";
  }
}

/* After a second report, in the program's handler of SIGABRT, abort() would call the handler again. */
_Noreturn void os_abort(void) {
  if (os_dying) (void)signal(SIGABRT, SIG_DFL);
  os_dying = true;
  void (*leave)(void) = atomic_load_explicit(&os_when_dying, memory_order_relaxed);
  if (leave != NULL) leave();
  void (*write)(void) = atomic_load_explicit(&os_last_words, memory_order_relaxed);
  if (write != NULL) write();
  abort();
}
