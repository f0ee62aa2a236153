/* The helper thread, seen from the program: there is none where the program has no thread of its own or a seccomp
 * filter, and where there is one, it is an ordinary thread without privileges, whoever started it.
 *
 * What is free goes back without it as well, by what the program goes on to call.
 *
 * usage: helper alone|child|calls|filter|filter-later|filter-setuid|ordinary|setuid|ends|ends-beside|ends-left|vfork */
#include "kit.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__GLIBC__)
extern char __libc_single_threaded __attribute__((weak));
#endif

enum { SMALL = 1000, SMALL_COUNT = 100000, LARGE_COUNT = 100 };
#define LARGE (900 * KIT_KB)

/* Far more than calls the helper, by small blocks and by Large ones. */
static void fill_and_free(void) {
  static void *small[SMALL_COUNT], *large[LARGE_COUNT];
  for (int i = 0; i < SMALL_COUNT; i++) {
    small[i] = mem_malloc(SMALL);
    CHECK(small[i], "malloc failed");
    memset(small[i], 1, SMALL);
  }
  for (int i = 0; i < LARGE_COUNT; i++) {
    large[i] = mem_malloc(LARGE);
    CHECK(large[i], "malloc failed");
    memset(large[i], 1, LARGE);
  }
  for (int step = 0; step < 2; step++) /* every second first: so that slabs stay */
    for (int i = step; i < SMALL_COUNT; i += 2) mem_free(small[i]);
  for (int i = 0; i < LARGE_COUNT; i++) mem_free(large[i]);
}

/* What a file of a task of this process says; empty: the task has gone. */
static void read_task(const char *task, const char *name, char *text, size_t room) {
  char path[300];
  snprintf(path, sizeof path, "/proc/self/task/%s/%s", task, name);
  text[0] = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) return;
  text[fread(text, 1, room - 1, file)] = 0;
  fclose(file);
}

/* The helper's number, 0: there is none. */
static int find_helper(void) {
  int found = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks, "cannot read /proc/self/task");
  for (struct dirent *entry; found == 0 && (entry = readdir(tasks)) != NULL;) {
    char name[40];
    if (entry->d_name[0] == '.') continue;
    read_task(entry->d_name, "comm", name, sizeof name);
    if (strcmp(name, "hakmem\n") == 0) found = atoi(entry->d_name);
  }
  closedir(tasks);
  return found;
}

/* --- no thread in a program without threads -------------------------------------------------------- */

static bool may_make_namespace(void) {
  pid_t pid = fork();
  CHECK(pid >= 0, "fork failed");
  if (pid == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid, "waitpid failed");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int alone(void) {
  bool namespaces = may_make_namespace();
  for (int round = 0; round < 3; round++) fill_and_free();
  usleep(50000);
  CHECK(kit_tasks() == 1, "a program without threads has %d", kit_tasks());
#if defined(__GLIBC__)
  if (&__libc_single_threaded != NULL)
    CHECK(__libc_single_threaded, "libc was told of a second thread");
#endif
  if (!namespaces) printf("user namespaces are refused here: unshare() was not tried\n");
  else CHECK(unshare(CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER) failed");
  return 0;
}

/* --- what the calls of such a program give back ------------------------------------------------------ */

enum { BLOCKS_MOST = 600000, WAIT_SECONDS = 30, CALLS = 100 };
#define BYTES ((KIT_SANITIZED ? 60 : 300) * KIT_MB)

/* One block in so many lives on: most slabs have one, and so have to be given back page by page. */
enum { LIVES = 64 };

static void *use_heap(void *unused) {
  mem_free(mem_malloc(SMALL));
  return unused;
}

/* A fork's child has one thread, however many its parent had. */
static int child(void) {
  pthread_t thread;
  int status = -1;
  CHECK(pthread_create(&thread, NULL, use_heap, NULL) == 0, "cannot create thread");
  pthread_join(thread, NULL);
  pid_t pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid == 0) {
    fill_and_free();
    usleep(50000);
    _exit(kit_tasks());
  }
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child did not end well");
  CHECK(WEXITSTATUS(status) == 1, "a child without threads has %d", WEXITSTATUS(status));
  return 0;
}

static int calls(void) {
  static kit_block blocks[BLOCKS_MOST], now[CALLS];
  struct kit_rng rng = kit_rng_make(1);
  size_t before = kit_resident(), budget = BYTES;
  int count = 0;
  for (; budget > 1000 && count < BLOCKS_MOST; count++) {
    size_t size = count % 1000 == 0 ? 100 * KIT_KB + kit_below(&rng, 400 * KIT_KB)
                                    : 16 + kit_below(&rng, 1000);
    blocks[count] = kit_block_malloc(size, (uint64_t)count);
    CHECK(blocks[count], "malloc failed");
    budget -= size < budget ? size : budget;
  }
  size_t full = kit_resident();
  for (int i = 0; i < count; i++)
    if (i % LIVES != 0) kit_block_free(blocks[i]);
  unsigned waited = 0;
  size_t resident = 0, most = before + (full - before) / 5;
  for (; waited < WAIT_SECONDS * 100; waited++) {
    for (int i = 0; i < CALLS; i++) now[i] = kit_block_malloc(16 + kit_below(&rng, 1000), 1);
    for (int i = 0; i < CALLS; i++) kit_block_free(now[i]);
    resident = kit_resident();
    if (resident <= most) break;
    usleep(10000);
  }
  printf("%zu MB, of which %zu MB are left after %u times %d calls\n", (full - before) / KIT_MB,
         (resident - before) / KIT_MB, waited, CALLS);
  CHECK(kit_tasks() == 1, "a program without threads has %d", kit_tasks());
  CHECK(resident <= most, "too much is left");
  for (int i = 0; i < count; i += LIVES) kit_block_check(blocks[i]);
  return 0;
}

/* --- none under a filter ---------------------------------------------------------------------------------- */

static pthread_barrier_t step;

static void *wait_for_end(void *unused) {
  pthread_barrier_wait(&step);
  pthread_barrier_wait(&step);
  return unused;
}

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

/* Who makes one of two system calls is killed, in each thread. */
static bool forbid(unsigned call, unsigned other) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static int filter(void) {
  pthread_t other;
  pthread_barrier_init(&step, NULL, 2);
  CHECK(pthread_create(&other, NULL, wait_for_end, NULL) == 0, "cannot create thread");
  pthread_barrier_wait(&step);
  if (!forbid(SYS_clone, SYS_clone3)) {
    printf("no seccomp filters here\n");
    return KIT_SKIP;
  }
  for (int round = 0; round < 3; round++) fill_and_free();
  CHECK(find_helper() == 0, "a thread was started under a filter");
  pthread_barrier_wait(&step);
  pthread_join(other, NULL);
  return 0;
}

/* --- what it runs as -------------------------------------------------------------------------------------- */

static cpu_set_t of_process;

/* As unlike the process as this thread may be. */
static void be_special(void) {
  cpu_set_t one;
  int first = 0;
  struct sched_param high = {.sched_priority = 10};
  while (!CPU_ISSET(first, &of_process)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot pin a thread");
  if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &high) != 0)
    printf("SCHED_FIFO is refused here\n");
  CHECK(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 7) == 0, "cannot lower the priority");
}

/* Frees until there is a helper, which is its return value; 0: none came in 10 s. */
static int call_helper(void) {
  int helper = 0;
  for (int tries = 0; helper == 0 && tries < 100; tries++) {
    fill_and_free();
    helper = find_helper();
    if (helper == 0) usleep(100000);
  }
  return helper;
}

/* It may do more only to follow the program when that changes its user or group. */
#define USER_AND_GROUP 0xc0UL

static void check_ordinary(int helper) {
  char task[20], text[4096];
  snprintf(task, sizeof task, "%d", helper);
  unsigned long capabilities = 1;
  int policy = -1, nice = -1;
  cpu_set_t processors;
  /* It is told by its name before it has done all. */
  for (int tries = 0; tries < 100; tries++) {
    usleep(1000);
    policy = sched_getscheduler(helper);
    nice = getpriority(PRIO_PROCESS, (id_t)helper);
    CHECK(sched_getaffinity(helper, sizeof processors, &processors) == 0, "the helper has gone");
    read_task(task, "status", text, sizeof text);
    const char *at = strstr(text, "CapEff:");
    CHECK(at != NULL, "no capabilities in /proc");
    capabilities = strtoul(at + 7, NULL, 16) & ~USER_AND_GROUP;
    if (policy == SCHED_OTHER && capabilities == 0 && CPU_EQUAL(&processors, &of_process)) break;
  }
  CHECK(policy == SCHED_OTHER, "the helper's policy is %d", policy);
  CHECK(nice == getpriority(PRIO_PROCESS, (id_t)getpid()), "the helper's nice value is %d", nice);
  CHECK(CPU_EQUAL(&processors, &of_process), "the helper is pinned");
  CHECK(capabilities == 0, "the helper has the capabilities %lx", capabilities);
  const char *blocked = strstr(text, "SigBlk:");
  CHECK(blocked != NULL, "no signals in /proc");
  /* All but KILL, STOP and what libc keeps for itself. */
  unsigned long open =
      ~strtoul(blocked + 7, NULL, 16) & ~(1UL << 8 | 1UL << 18 | 1UL << 31 | 1UL << 32 | 1UL << 33);
  CHECK(open == 0, "the helper may get the signals %lx", open);
}

static void *special_thread(void *unused) {
  be_special();
  int helper = call_helper();
  CHECK(helper != 0, "no helper was started");
  check_ordinary(helper);
  return unused;
}

static int ordinary(void) {
  CHECK(sched_getaffinity(0, sizeof of_process, &of_process) == 0, "no affinity");
  if (CPU_COUNT(&of_process) < 2) printf("one processor: pinning shows nothing\n");
  pthread_t special;
  CHECK(pthread_create(&special, NULL, special_thread, NULL) == 0, "cannot create thread");
  pthread_join(special, NULL);
  return 0;
}

/* --- a program that gives up its privileges while there is one --------------------------------------- */

/* libc does it in each thread, and ends a program in which that is refused to some. */
static void *drop_privileges(void *unused) {
  CHECK(call_helper() != 0, "no helper was started");
  usleep(50000); /* it has given up by now what it gives up */
  CHECK(setgid(65534) == 0, "setgid failed");
  CHECK(setuid(65534) == 0, "setuid failed");
  CHECK(setuid(0) != 0, "root again");
  usleep(10000);
  int helper = find_helper();
  if (helper == 0) return unused; /* its work was done */
  char task[20], text[4096];
  snprintf(task, sizeof task, "%d", helper);
  read_task(task, "status", text, sizeof text);
  const char *at = strstr(text, "CapEff:");
  CHECK(at == NULL || strtoul(at + 7, NULL, 16) == 0, "the helper keeps capabilities");
  return unused;
}

static int change_user(void) {
  if (geteuid() != 0 || setgid(getgid()) != 0) {
    printf("only for root\n");
    return KIT_SKIP;
  }
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, drop_privileges, NULL) == 0, "cannot create thread");
  pthread_join(thread, NULL);
  return 0;
}

/* --- a filter that comes after the helper, for all threads ----------------------------------------------- */

/* The process that the service manager starts has no privileges, or has given them up as it starts, or does so now: in all threads. */
static void be_nobody(void) {
  if (geteuid() != 0) return;
  CHECK(setgid(65534) == 0, "setgid failed");
  CHECK(setuid(65534) == 0, "setuid failed");
}

static void *filter_later(void *skipped) {
  CHECK(call_helper() != 0, "no helper was started");
  usleep(50000); /* it has given up by now what it gives up */
  be_nobody();
  if (!forbid(SYS_capget, SYS_capset)) {
    *(bool *)skipped = true;
    return NULL;
  }
  for (int looks = 0; looks < 20; looks++) {
    fill_and_free();
    usleep(100000);
  }
  CHECK(call_helper() != 0, "the helper has gone");
  return NULL;
}

static int filtered_later(bool privileged) {
  pthread_t thread;
  bool skipped = false;
  if (privileged && geteuid() != 0) {
    printf("only for root\n");
    return KIT_SKIP;
  }
  if (!privileged) be_nobody();
  /* A thread without a heap would end without a sign, so the helper would end first, and it is not started under a filter. */
  mem_free(mem_malloc(1));
  CHECK(pthread_create(&thread, NULL, filter_later, &skipped) == 0, "cannot create thread");
  pthread_join(thread, NULL);
  if (skipped) printf("no seccomp filters here\n");
  return skipped ? KIT_SKIP : 0;
}

/* --- a program whose threads have ended -------------------------------------------------------------------- */

/* On a busy machine; it took 2,400 ms when the helper stayed for what it waited for. */
enum { END_MS = 600, END_THREADS = 4, LEFT_SIZE = 40000 };
#define LEFT_MOST (40 * KIT_MB)

static atomic_bool helper_seen;
static void *kept[SMALL_COUNT];

static void *work_until_helper(void *kept_blocks) {
  void **blocks = kept_blocks;
  for (int i = 0; blocks != NULL && i < SMALL_COUNT; i++) {
    CHECK(blocks[i] = mem_malloc(SMALL), "malloc failed");
    memset(blocks[i], 1, SMALL);
  }
  CHECK(call_helper() != 0, "no helper was started");
  atomic_store(&helper_seen, true);
  fill_and_free();
  for (int i = 0; blocks != NULL && i < SMALL_COUNT; i++)
    if (i % LIVES != 0) mem_free(blocks[i]);
  return NULL;
}

static void *never_allocate(void *unused) {
  while (!atomic_load(&helper_seen)) usleep(1000);
  return unused;
}

static void check_alone(void) {
  int ms = 0;
  for (; kit_tasks() > 1 && ms < END_MS; ms++) usleep(1000);
  CHECK(kit_tasks() == 1, "a program whose threads have ended has %d", kit_tasks());
  printf("alone after %d ms\n", ms);
}

static int ends(void) {
  pthread_t ids[END_THREADS];
  bool namespaces = may_make_namespace();
  for (int round = 0; round < 3; round++) {
    atomic_store(&helper_seen, false);
    for (int i = 0; i < END_THREADS; i++)
      CHECK(pthread_create(&ids[i], NULL, i > 0 ? never_allocate : work_until_helper, NULL) == 0,
            "cannot create thread");
    for (int i = 0; i < END_THREADS; i++) pthread_join(ids[i], NULL);
    check_alone();
  }
  if (!namespaces) printf("user namespaces are refused here: unshare() was not tried\n");
  else CHECK(unshare(CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER) failed");
  return 0;
}

/* The other thread has no heap, so that nobody hears of its end. */
static int ends_beside(void) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, never_allocate, NULL) == 0, "cannot create thread");
  work_until_helper(NULL);
  pthread_join(id, NULL);
  check_alone();
  return 0;
}

/* What it was about to give back goes by the calls of the thread that is left. */
static int ends_left(void) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, work_until_helper, kept) == 0, "cannot create thread");
  pthread_join(id, NULL);
  check_alone();
  size_t resident = kit_resident(), full = resident;
  for (int i = 0; i < WAIT_SECONDS * 100 && resident > LEFT_MOST; i++) {
    for (int j = 0; j < CALLS; j++) kept[0] = mem_malloc(LEFT_SIZE), mem_free(kept[0]);
    usleep(10000);
    resident = kit_resident();
  }
  printf("%zu MB, %zu MB are left\n", full / KIT_MB, resident / KIT_MB);
  CHECK(full > 2 * LEFT_MOST, "there was too little to give back");
  CHECK(resident <= LEFT_MOST, "too much is left");
  CHECK(kit_tasks() == 1, "a program whose threads have ended has %d", kit_tasks());
  return 0;
}

/* A child of vfork has the parent's memory. What it frees calls no helper that would end with it, and the parent gets its own. Needs
 * HAKMEM_BACKGROUND=1: else a child of one thread has none anyway. */
static int in_vfork(void) {
  CHECK(kit_tasks() == 1, "a thread before there was any memory");
  mem_free(
      mem_malloc(1)); /* a child that is the first to allocate is taken for the process itself */
  pid_t process = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): it is about that
  if (process == 0) {
    fill_and_free();
    _exit(kit_tasks() == 1 ? 0 : 1);
  }
  int status;
  CHECK(waitpid(process, &status, 0) == process, "no child");
  CHECK(status == 0, "the child started a thread");
  fill_and_free();
  CHECK(kit_tasks() == 2, "no helper thread after a vfork");
  return 0;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(120);
  const char *mode = argc == 2 ? argv[1] : "";
  if (strcmp(mode, "alone") == 0) return alone();
  if (strcmp(mode, "child") == 0) return child();
  if (strcmp(mode, "calls") == 0) return calls();
  if (strcmp(mode, "filter") == 0) return filter();
  if (strcmp(mode, "filter-later") == 0) return filtered_later(false);
  if (strcmp(mode, "filter-setuid") == 0) return filtered_later(true);
  if (strcmp(mode, "ordinary") == 0) return ordinary();
  if (strcmp(mode, "setuid") == 0) return change_user();
  if (strcmp(mode, "ends") == 0) return ends();
  if (strcmp(mode, "ends-beside") == 0) return ends_beside();
  if (strcmp(mode, "ends-left") == 0) return ends_left();
  if (strcmp(mode, "vfork") == 0) return in_vfork();
  CHECK(false, "usage: helper "
               "alone|child|calls|filter|filter-later|filter-setuid|ordinary|setuid|ends|ends-"
               "beside|ends-left|vfork");
}
