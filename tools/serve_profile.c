/* serve_profile.c - see serve.h: heap profiles, each made by a child. Finding names in large programs takes seconds, and a profile
 * of what grows waits: meanwhile others are answered. What libdw has cached goes with the child.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "pprof.h"
#include "serve.h"

enum { JOBS_MOST = 8 };

struct job {
  pid_t child; /* 0: it has ended */
  int fd;      /* what it wrote: the profile, or why there is none */
  bool made;
  void *owner;
};

static struct job *jobs[JOBS_MOST];

/* --- the child -------------------------------------------------------------------------------------------- */

static bool read_profile(struct profile *profile, struct remote *remote, long seconds) {
  remote_follow(remote); /* it was looked at a second ago, perhaps */
  if (profile_read(profile, remote) != 0) return false;
  if (seconds == 0) return true;
  struct profile before = *profile;
  struct timespec time = {.tv_sec = seconds};
  nanosleep(&time, NULL);
  if (remote_report(remote, remote_look_on(remote)) != 0 || profile_read(profile, remote) != 0)
    return false;
  profile_subtract(profile, &before);
  return true;
}

static void child(struct remote *remote, const struct wish *wish, int fd) {
  struct profile profile;
  char *said = NULL;
  size_t length = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  FILE *complaints = open_memstream(&said, &length);
  if (complaints == NULL) _exit(1);
  collect_complaints(complaints);
  bool made = read_profile(&profile, remote, wish->seconds) &&
              pprof_write(&profile, remote, wish->allocated ? ALLOCATED_BYTES : LIVE_BYTES, fd);
  fclose(complaints);
  if (!made && ftruncate(fd, 0) == 0 && pwrite(fd, said, length, 0) < 0) _exit(1);
  _exit(made ? 0 : 1);
}

/* --- the parent ------------------------------------------------------------------------------------------- */

struct job *job_start(struct remote *remote, const struct wish *wish, void *owner) {
  size_t i = 0;
  while (i < JOBS_MOST && jobs[i] != NULL) i++;
  if (i == JOBS_MOST) {
    errno = EBUSY;
    return NULL;
  }
  struct job *job = calloc(1, sizeof *job);
  if (job == NULL) return NULL;
  *job = (struct job){.fd = memfd_create("profile", MFD_CLOEXEC), .owner = owner};
  job->child = job->fd >= 0 ? fork() : -1;
  if (job->child == 0) child(remote, wish, job->fd);
  if (job->child < 0) {
    int error = errno;
    if (job->fd >= 0) close(job->fd);
    free(job);
    errno = error;
    return NULL;
  }
  jobs[i] = job;
  return job;
}

void *job_ended(void) {
  for (size_t i = 0; i < JOBS_MOST; i++) {
    struct job *job = jobs[i];
    int status = 0;
    if (job == NULL || job->child == 0 || waitpid(job->child, &status, WNOHANG) == 0) continue;
    job->made = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    job->child = 0;
    return job->owner;
  }
  return NULL;
}

int job_take(struct job *job, bool *made) {
  int fd = job->fd;
  *made = job->made;
  job->fd = -1;
  return fd;
}

static void stop_child(struct job *job) {
  if (job->child == 0) return;
  kill(job->child, SIGKILL);
  waitpid(job->child, NULL, 0);
  job->child = 0;
}

void job_end(struct job *job) {
  for (size_t i = 0; i < JOBS_MOST; i++)
    if (jobs[i] == job) jobs[i] = NULL;
  stop_child(job);
  if (job->fd >= 0) close(job->fd);
  free(job);
}

void *job_kill(bool (*is_chosen)(void *owner)) {
  for (size_t i = 0; i < JOBS_MOST; i++)
    if (jobs[i] != NULL && jobs[i]->child != 0 &&
        (is_chosen == NULL || is_chosen(jobs[i]->owner))) {
      stop_child(jobs[i]);
      return jobs[i]->owner;
    }
  return NULL;
}
