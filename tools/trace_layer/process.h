/* process.h - which process a pid means, for both sides: pids are used again. Nothing here allocates. */
#ifndef HAKMEM_TRACE_PROCESS_H
#define HAKMEM_TRACE_PROCESS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRACE_PROCESS_ENDED UINT64_MAX

/** When the process started, in ticks since the system did. TRACE_PROCESS_ENDED: nobody has waited for it yet. 0: it is not
 * there, or /proc does not show it. */
static inline uint64_t trace_process_start(int pid) {
  enum { FIELDS_FROM_STATE = 19 }; /* proc(5): state is field 3, starttime 22 */
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = 0;
  const char *at = strrchr(text, ')'); /* a name may hold anything */
  if (at == NULL || at[1] != ' ') return 0;
  at++;
  if (at[1] == 'Z' || at[1] == 'X') return TRACE_PROCESS_ENDED;
  for (int i = 0; at != NULL && i < FIELDS_FROM_STATE; i++) at = strchr(at + 1, ' ');
  return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/** Is the process of that start still there? `start` 0: any of that pid. */
static inline bool trace_process_lives(int pid, uint64_t start) {
  uint64_t now = trace_process_start(pid);
  if (now == 0) return kill(pid, 0) == 0 || errno == EPERM;
  return now != TRACE_PROCESS_ENDED && (start == 0 || now == start);
}

/** The calling process's namespace of pids, 0 where /proc does not tell. */
static inline uint64_t trace_pid_namespace(void) {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

#endif
