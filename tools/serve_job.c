/* serve_job.c - see serve.h: answers that children make. Reading a machine takes time, finding names in large programs takes seconds, a
 * profile of what grows waits: meanwhile others are answered. What libdw has cached goes with the child. A call of the kernel that reads
 * a process may wait for that process, without an end if it wants so: then the child is killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "serve.h"

enum { PROFILES_MOST = 8, JOBS_MOST = PROFILES_MOST + 1 };

/* What a process that lies can make a child ask for. Of 1,000 processes it takes 10 MB. */
#define MEMORY_MOST (256ull << 20)

struct job {
  struct served *served;
  enum page page;
  struct wish wish;
  pid_t child; /* 0: it has ended */
  int fd;      /* what it wrote: the answer, or why there is none */
  enum made made;
  unsigned users;
  /* When it last went on to another process. */
  uint64_t steps, stepped_ms;
};

/* Those whose child lives. */
static struct job *jobs[JOBS_MOST];

static void child(struct job *job) {
  const struct rlimit limit = {MEMORY_MOST, MEMORY_MOST};
  sigset_t none;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (job->page != PAGE_PROFILE) setrlimit(RLIMIT_DATA, &limit);
  _exit((int)read_page(job->served, job->page, &job->wish, job->fd));
}

/* False: errno says why. */
static bool start(struct job *job) {
  job->child = fork();
  if (job->child == 0) child(job);
  if (job->child > 0) return true;
  job->child = 0;
  return false;
}

static struct job **find_place(const struct job *job) {
  for (size_t i = 0; i < JOBS_MOST; i++)
    if (jobs[i] == job) return &jobs[i];
  return NULL;
}

unsigned job_count(void) {
  unsigned count = 0;
  for (size_t i = 0; i < JOBS_MOST; i++) count += jobs[i] != NULL;
  return count;
}

static unsigned count_profiles(void) {
  unsigned count = 0;
  for (size_t i = 0; i < JOBS_MOST; i++) count += jobs[i] != NULL && jobs[i]->page == PAGE_PROFILE;
  return count;
}

struct job *job_start(struct served *served, enum page page, const struct wish *wish) {
  struct job **place = find_place(NULL), *job = NULL;
  if (place == NULL || (page == PAGE_PROFILE && count_profiles() == PROFILES_MOST)) {
    errno = EBUSY;
    return NULL;
  }
  if ((job = calloc(1, sizeof *job)) == NULL) return NULL;
  *job = (struct job){.served = served, .page = page, .users = 1, .stepped_ms = now_ms()};
  if (wish != NULL) job->wish = *wish;
  job->fd = memfd_create("answer", MFD_CLOEXEC);
  if (job->fd >= 0 && start(job)) {
    *place = job;
    return job;
  }
  /* Where no child is to be had, figures come all the same. */
  if (job->fd >= 0 && page != PAGE_PROFILE) {
    job->made = read_page(served, page, NULL, job->fd);
    return job;
  }
  int error = errno;
  if (job->fd >= 0) close(job->fd);
  free(job);
  errno = error;
  return NULL;
}

struct job *job_use(struct job *job) {
  job->users++;
  return job;
}

static void stop_child(struct job *job) {
  if (job->child == 0) return;
  kill(job->child, SIGKILL);
  waitpid(job->child, NULL, 0);
  job->child = 0;
}

void job_leave(struct job *job) {
  if (job == NULL || --job->users > 0) return;
  struct job **place = find_place(job);
  if (place != NULL) *place = NULL;
  stop_child(job);
  close(job->fd);
  free(job);
}

bool job_is_ready(const struct job *job) { return job->child == 0; }

struct job_answer job_take(const struct job *job) {
  return (struct job_answer){job->made, job->fd};
}

void job_reap(void) {
  for (size_t i = 0; i < JOBS_MOST; i++) {
    struct job *job = jobs[i];
    int status = 0;
    if (job == NULL || waitpid(job->child, &status, WNOHANG) == 0) continue;
    job->made = WIFEXITED(status) ? (enum made)WEXITSTATUS(status) : MADE_NOT;
    job->child = 0;
    jobs[i] = NULL;
  }
}

/* A profile ends when nobody waits for it any more. */
static bool hangs(struct job *job, int *pid) {
  if (job->page == PAGE_PROFILE || (job->served->name == NULL && !job->served->all)) return false;
  uint64_t steps = served_steps(job->served, pid), now = now_ms();
  if (steps != job->steps) {
    job->steps = steps;
    job->stepped_ms = now;
  }
  return *pid != 0 && now - job->stepped_ms > 1000 + 2 * job->served->each_ms;
}

void job_watch(void) {
  int pid = 0;
  for (size_t i = 0; i < JOBS_MOST; i++) {
    struct job *job = jobs[i];
    if (job == NULL || !hangs(job, &pid)) continue;
    stop_child(job);
    served_reads(job->served, 0);
    served_shun(job->served, pid);
    job->stepped_ms = now_ms();
    if (ftruncate(job->fd, 0) == 0 && lseek(job->fd, 0, SEEK_SET) == 0 && start(job)) continue;
    job->made = MADE_NOT;
    jobs[i] = NULL;
  }
}
