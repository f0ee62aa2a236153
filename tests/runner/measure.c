/*
 * Runs a test and adds a line to a file: what the test took. Usage: measure FILE NAME PROGRAM [ARGUMENT...]
 *
 * The line: user and system time of the test and of all processes that it waited for, in microseconds, and NAME. It ends as
 * the test ends: with its exit status, or by its signal. Linked statically, so that LD_PRELOAD is the test's alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_RUN = 127, LINE = 512 };

static long microseconds(struct timeval time) { return time.tv_sec * 1000000L + time.tv_usec; }

static void write_down(const char *file, const char *name, const struct rusage *usage) {
  char line[LINE];
  const int length = snprintf(line, sizeof line, "%ld %ld %s\n", microseconds(usage->ru_utime),
                              microseconds(usage->ru_stime), name);
  const int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (length < 0 || length >= LINE || fd < 0 || write(fd, line, (size_t)length) != length)
    dprintf(STDERR_FILENO, "measure: %s: %s\n", file, strerror(errno));
  if (fd >= 0) (void)close(fd);
}

int main(int count, char **arguments) {
  if (count < 4) {
    dprintf(STDERR_FILENO, "usage: measure FILE NAME PROGRAM [ARGUMENT...]\n");
    return CANNOT_RUN;
  }
  const pid_t child = fork();
  if (child == 0) {
    execvp(arguments[3], arguments + 3);
    dprintf(STDERR_FILENO, "measure: %s: %s\n", arguments[3], strerror(errno));
    _exit(CANNOT_RUN);
  }
  int status = 0;
  struct rusage usage;
  pid_t ended = -1;
  if (child > 0) {
    do ended = wait4(child, &status, 0, &usage);
    while (ended < 0 && errno == EINTR);
  }
  if (ended < 0) {
    dprintf(STDERR_FILENO, "measure: %s: %s\n", arguments[3], strerror(errno));
    return CANNOT_RUN;
  }
  write_down(arguments[1], arguments[2], &usage);
  if (WIFSIGNALED(status)) {
    // The test has left its core file already, if it was to leave one.
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)raise(WTERMSIG(status));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : CANNOT_RUN;
}
