/* A program in a memory control group (version 1 or 2) of 250 MB, or of as many as are given behind the mode, that has 150 MB, frees half of
 * it, and allocates on to nine tenths of the limit, at full speed. Half is a run of 64 KiB in two, so all of it can be given back; where nobody
 * does so in time the kernel kills.
 *
 * usage: near_limit one     one thread does all
 *        near_limit before  the first thread frees before there are others
 *        near_limit sleep   others free their own, and sleep
 *        near_limit ended   others free their own, and end
 *        near_limit others  the first thread frees what others have, which sleep
 *        near_limit each    others free each other's, and sleep
 *        near_limit huge    as one, but 150 MB come as blocks of 6 MB
 *        near_limit twice   as sleep, and what came after the first half is freed and allocated again by another thread
 * Skipped where no group with a limit can be made. */
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t limit_mb = 250;
enum { SMALL = 1 << 10, MID = 8 << 10, HUGE_ = 6 << 20, RUN = 64, WORKERS = 4 };
enum { FILLED = 150 << 20, SMALLS = FILLED / SMALL, MIDS = FILLED / MID };

/* --- the group ---------------------------------------------------------------------------------------------------- */

static char group[512];

static bool group_write(const char *name, const char *text) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", group, name);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool done = write(file, text, strlen(text)) == (ssize_t)strlen(text);
  close(file);
  return done;
}

static bool make_group_in(const char *parent) {
  char limit[32], control[600];
  snprintf(group, sizeof group, "%s/hakmem-near-limit-%d", parent, (int)getpid());
  snprintf(limit, sizeof limit, "%zu", limit_mb * KIT_MB);
  if (mkdir(group, 0755) != 0) return false;
  /* Swap would let the program live. */
  if (group_write("memory.limit_in_bytes", limit)) return group_write("memory.swappiness", "0");
  snprintf(control, sizeof control, "%s/cgroup.subtree_control", parent);
  int file = open(control, O_WRONLY | O_CLOEXEC);
  if (file >= 0) {
    if (write(file, "+memory", 7) != 7) errno = 0; /* it may be so already */
    close(file);
  }
  if (group_write("memory.max", limit))
    return group_write("memory.swap.max", "0") || errno == ENOENT;
  rmdir(group);
  return false;
}

/* Below the group of this process, or below the root. */
static bool make_group(void) {
  char line[512], parent[600];
  bool made = false;
  FILE *own = fopen("/proc/self/cgroup", "re");
  while (own != NULL && !made && fgets(line, sizeof line, own) != NULL) {
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL) continue;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    bool first = strstr(controllers, "memory") != NULL;
    if (!first && controllers[1] != 0) continue;
    snprintf(parent, sizeof parent, "/sys/fs/cgroup%s%s", first ? "/memory" : "", path);
    made = make_group_in(parent);
    if (!made) made = make_group_in(first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
  }
  if (own != NULL) fclose(own);
  return made;
}

static void remove_group(void) {
  for (int i = 0; i < 100 && rmdir(group) != 0 && errno == EBUSY; i++) usleep(10000);
}

/* --- in the group ------------------------------------------------------------------------------------------------- */

static char *smalls[SMALLS], *mids[MIDS];
static atomic_uint filled, freed;
static atomic_bool done;

static void fill(unsigned part, unsigned parts) {
  for (size_t i = part; i < SMALLS / RUN; i += parts)
    for (size_t j = 0; j < RUN; j++) {
      char *block = mem_malloc(SMALL);
      CHECK(block, "malloc failed");
      memset(block, 1, SMALL);
      smalls[i * RUN + j] = block;
    }
}

/* Of what `part` of `parts` has allocated every second run in the order of allocation, which is that of addresses. */
static void free_half(unsigned part, unsigned parts) {
  for (size_t i = part, n = 0; i < SMALLS / RUN; i += parts, n++)
    for (size_t j = 0; n % 2 == 0 && j < RUN; j++) mem_free(smalls[i * RUN + j]);
}

static bool frees, sleeps, crosswise;

static void *work(void *number) {
  unsigned me = (unsigned)(uintptr_t)number;
  fill(me, WORKERS);
  atomic_fetch_add(&filled, 1);
  while (crosswise && atomic_load(&filled) < WORKERS) usleep(1000);
  if (frees) free_half(crosswise ? (me + 1) % WORKERS : me, WORKERS);
  atomic_fetch_add(&freed, 1);
  while (sleeps && !atomic_load(&done)) usleep(10000);
  return NULL;
}

static void *only_sleep(void *unused) {
  mem_free(mem_malloc(100));
  while (!atomic_load(&done)) usleep(10000);
  return unused;
}

static void allocate_on(size_t size) {
  for (size_t i = 0; i < FILLED / size; i++) {
    CHECK(mids[i] = mem_malloc(size), "malloc failed");
    memset(mids[i], 1, size);
  }
}

static void *allocate_mids(void *unused) {
  allocate_on(MID);
  return unused;
}

static void start(pthread_t *ids, void *(*what)(void *)) {
  for (uintptr_t i = 0; i < WORKERS; i++)
    CHECK(pthread_create(&ids[i], NULL, what, (void *)i) == 0, "cannot create thread");
}

static void with_workers(void) {
  pthread_t ids[WORKERS];
  start(ids, work);
  for (unsigned i = 0; !sleeps && i < WORKERS; i++) pthread_join(ids[i], NULL);
  while (atomic_load(&freed) < WORKERS) usleep(100);
  for (unsigned i = 0; !frees && i < WORKERS; i++) free_half(i, WORKERS);
  allocate_on(MID);
}

static void run(const char *mode) {
  pthread_t ids[WORKERS];
  frees = strcmp(mode, "others") != 0;
  crosswise = strcmp(mode, "each") == 0;
  sleeps = strcmp(mode, "ended") != 0;
  if (strcmp(mode, "one") == 0 || strcmp(mode, "before") == 0 || strcmp(mode, "huge") == 0) {
    fill(0, 1);
    free_half(0, 1);
    if (strcmp(mode, "before") == 0) start(ids, only_sleep);
    allocate_on(strcmp(mode, "huge") == 0 ? HUGE_ : MID);
    return;
  }
  with_workers();
  if (strcmp(mode, "twice") != 0) return;
  for (size_t i = 0; i < MIDS; i++) mem_free(mids[i]);
  CHECK(pthread_create(&ids[0], NULL, allocate_mids, NULL) == 0, "cannot create thread");
  pthread_join(ids[0], NULL);
}

int main(int argc, char **argv) {
  kit_start();
  CHECK(argc >= 2, "usage: near_limit one|before|sleep|ended|others|each|huge|twice [MB]");
  if (argc > 2) limit_mb = strtoul(argv[2], NULL, 10);
  if (!make_group()) {
    printf("skipped: no memory control group can be made here\n");
    return KIT_SKIP;
  }
  pid_t child = fork();
  CHECK(child >= 0, "cannot fork");
  if (child == 0) {
    kit_watchdog(120);
    if (!group_write("cgroup.procs", "0")) _exit(2);
    run(argv[1]);
    printf("%zu MB resident\n", kit_resident() / KIT_MB);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child, "no child");
  remove_group();
  CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL, "killed at the limit");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
  return 0;
}
