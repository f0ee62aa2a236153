/* stopped.c - see stopped.h. */
#define _GNU_SOURCE
#include "stopped.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

static bool is_known(const struct stopped *stopped, int number) {
  for (size_t i = 0; i < stopped->count; i++)
    if (stopped->threads[i].number == number) return true;
  return false;
}

static bool add(struct stopped *stopped, int number, int signal) {
  if (stopped->count == stopped->room) {
    size_t room = stopped->room == 0 ? 64 : 2 * stopped->room;
    struct stopped_thread *more = realloc(stopped->threads, room * sizeof *more);
    if (more == NULL) return false;
    stopped->threads = more;
    stopped->room = room;
  }
  stopped->threads[stopped->count++] = (struct stopped_thread){.number = number, .signal = signal};
  return true;
}

/* `signal`: one that it was about to get. */
static void let_go(int number, int signal) {
  (void)ptrace(PTRACE_DETACH, number, NULL, (void *)(intptr_t)signal);
}

enum outcome { STOPPED, GONE, ZOMBIE, REFUSED };

/* The first thread of a process stays as a zombie until the others have ended. */
static bool is_zombie(int process, int number) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/status", process, number);
  FILE *file = fopen(path, "re");
  if (file == NULL) return true;
  for (char line[256]; state == 0 && fgets(line, sizeof line, file) != NULL;)
    (void)sscanf(line, "State: %c", &state);
  fclose(file);
  return state == 'Z' || state == 'X';
}

/* Until it stands; some wait in the kernel and cannot be stopped. 0: it has ended, or does not stop. */
static pid_t wait_for(int number, int *status) {
  enum { TRIES = 10000 };
  const struct timespec pause = {.tv_nsec = 100000};
  for (int i = 0; i < TRIES; i++) {
    pid_t who = waitpid(number, status, __WALL | WNOHANG);
    if (who == number || (who < 0 && errno != EINTR)) return who;
    nanosleep(&pause, NULL);
  }
  return 0;
}

static enum outcome stop(struct stopped *stopped, int process, int number) {
  int status = 0;
  if (ptrace(PTRACE_SEIZE, number, NULL, NULL) != 0) {
    int error = errno;
    if (error == ESRCH) return GONE;
    if (error == EPERM && is_zombie(process, number)) return ZOMBIE;
    errno = error;
    return REFUSED;
  }
  (void)ptrace(PTRACE_INTERRUPT, number, NULL, NULL);
  pid_t who = wait_for(number, &status);
  if (who == 0) {
    errno = EBUSY;
    return REFUSED;
  }
  if (who != number || !WIFSTOPPED(status)) return GONE;
  int signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
  if (add(stopped, number, signal)) return STOPPED;
  let_go(number, signal);
  errno = ENOMEM;
  return REFUSED;
}

/* `*found`: some that were not there before. */
static bool stop_all(struct stopped *stopped, int process, bool *found) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *folder = opendir(path);
  if (folder == NULL) return false;
  enum outcome outcome = STOPPED;
  int error = 0;
  struct dirent *entry;
  *found = false;
  while (outcome != REFUSED && (entry = readdir(folder)) != NULL) {
    int number = (int)strtol(entry->d_name, NULL, 10);
    if (number <= 0 || is_known(stopped, number)) continue;
    outcome = stop(stopped, process, number);
    error = errno;
    *found |= outcome == STOPPED || outcome == GONE;
  }
  closedir(folder);
  errno = error;
  return outcome != REFUSED;
}

bool stopped_begin(struct stopped *stopped, int process) {
  *stopped = (struct stopped){0};
  /* A thread that goes on may start others; with all of them stopped nobody does. */
  for (bool found = true; found;) {
    if (stop_all(stopped, process, &found)) continue;
    int error = errno;
    stopped_end(stopped);
    errno = error;
    return false;
  }
  return true;
}

void stopped_end(struct stopped *stopped) {
  for (size_t i = 0; i < stopped->count; i++)
    let_go(stopped->threads[i].number, stopped->threads[i].signal);
  free(stopped->threads);
  *stopped = (struct stopped){0};
}
