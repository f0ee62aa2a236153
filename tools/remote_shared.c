/* remote_shared.c - see remote.h: the page that a process keeps with HAKMEM_SHM=1 (observe/shared.h), for where the process
 * itself may not be read. It is read like a file, never mapped: its owner may cut it short at any moment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "remote.h"

enum { TRIES = 100 };

/* Its number in its own namespace, its user, and what the kernel says is resident. All of it anybody may read. */
struct who {
  int inner;
  unsigned user;
  uint64_t resident;
};

static bool read_who(int pid, struct who *who) {
  char path[64], line[256], *end;
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  *who = (struct who){.inner = pid};
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "Uid:", 4) == 0) { /* the second one: the effective */
      strtoul(line + 4, &end, 10);
      who->user = (unsigned)strtoul(end, NULL, 10);
    }
    if (strncmp(line, "VmRSS:", 6) == 0) who->resident = strtoull(line + 6, NULL, 10) * 1024;
    if (strncmp(line, "NSpid:", 6) == 0) { /* the last one */
      const char *last = strrchr(line, '\t');
      if (last != NULL) who->inner = (int)strtol(last, NULL, 10);
    }
  }
  fclose(file);
  return true;
}

static double milliseconds(clockid_t clock) {
  struct timespec now = {0};
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Was it written before the process began? Then it is left over from another one of that number. */
static bool is_left_over(const struct shared_figures *figures, uint64_t birth) {
  const double slack_ms = 2000; /* of clocks that tick, and of a machine that slept */
  double age = milliseconds(CLOCK_MONOTONIC) - (double)figures->written_ms;
  double lived = milliseconds(CLOCK_BOOTTIME) - (double)birth * 1e3 / (double)sysconf(_SC_CLK_TCK);
  return age > lived + slack_ms;
}

/* A file of that user, that was not being written while it was read. */
static bool read_file(const char *path, unsigned user, struct shared_figures *figures) {
  struct stat status;
  struct shared_figures again;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  bool whole = false;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == user)
    for (int i = 0; i < TRIES && !whole; i++)
      whole = pread(fd, figures, sizeof *figures, 0) == (ssize_t)sizeof *figures &&
              figures->sequence % 2 == 0 &&
              pread(fd, &again, sizeof again, 0) == (ssize_t)sizeof again &&
              again.sequence == figures->sequence;
  close(fd);
  return whole && memcmp(figures->magic, SHARED_MAGIC, sizeof figures->magic) == 0 &&
         figures->version == SHARED_VERSION && figures->sequence > 0;
}

bool remote_read_shared(const struct remote *remote, struct shared_figures *figures,
                        uint64_t *resident) {
  char path[96];
  struct who who;
  if (!read_who(remote->task, &who)) return false;
  *resident = who.resident;
  for (int i = 0; i < 2; i++) {
    /* By its own root, and where that may not be looked into, by ours. */
    if (i == 0)
      snprintf(path, sizeof path, "/proc/%d/root" SHARED_DIRECTORY SHARED_NAME "%d", remote->pid,
               who.inner);
    else snprintf(path, sizeof path, SHARED_DIRECTORY SHARED_NAME "%d", who.inner);
    if (read_file(path, who.user, figures) && figures->process == (uint32_t)who.inner &&
        !is_left_over(figures, remote->birth)) {
      make_printable(figures->release, sizeof figures->release);
      make_printable(figures->variant, sizeof figures->variant);
      return true;
    }
  }
  return false;
}

double remote_shared_age(const struct shared_figures *figures) {
  double age = milliseconds(CLOCK_MONOTONIC) - (double)figures->written_ms;
  return age > 0 ? age / 1e3 : 0;
}
