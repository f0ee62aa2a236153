/* container_kernel.c - container.c against the kernel of this machine: a group with a limit is
 * made, a child runs in it, and what it reads and feels is what was set. Skipped where groups
 * cannot be made. */
#include "unit_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "os/file.h"
#include "policy/container.h"
#include "policy/options.h"

#define LIMIT (64 * MIB)

/* --- groups ----------------------------------------------------------------------------------- */

struct group {
  char outer[CONTAINER_PATH + 64], inner[CONTAINER_PATH + 80]; /* the limit is outer's */
  bool first_version;
};

static bool write_file(const char *directory, const char *name, const char *text) {
  char path[CONTAINER_PATH + 128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool ok = write(file, text, strlen(text)) == (ssize_t)strlen(text);
  int failure = errno;
  close(file);
  errno = failure;
  return ok;
}

static const char *limit_file(const struct group *group) {
  return group->first_version ? "memory.limit_in_bytes" : "memory.max";
}

static void remove_group(const struct group *group) {
  for (int i = 0; i < 100 && rmdir(group->inner) != 0 && errno == EBUSY; i++) usleep(10000);
  for (int i = 0; i < 100 && rmdir(group->outer) != 0 && errno == EBUSY; i++) usleep(10000);
}

/* Two levels below `parent`: 64 MiB outside, 128 inside. */
static bool make_group(struct group *group, const char *parent) {
  char path[CONTAINER_PATH + 64];
  snprintf(path, sizeof path, "%s/memory.limit_in_bytes", parent);
  group->first_version = access(path, F_OK) == 0;
  snprintf(group->outer, sizeof group->outer, "%s/hakmem-test-%d", parent, (int)getpid());
  snprintf(group->inner, sizeof group->inner, "%s/inner", group->outer);
  if (mkdir(group->outer, 0755) != 0) {
    print_message("mkdir %s: %s\n", group->outer, strerror(errno));
    return false;
  }
  if (write_file(group->outer, limit_file(group), "64M") &&
      (group->first_version || write_file(group->outer, "cgroup.subtree_control", "+memory")) &&
      mkdir(group->inner, 0755) == 0 && write_file(group->inner, limit_file(group), "128M"))
    return true;
  print_message("%s: no memory limit can be set: %s\n", group->outer, strerror(errno));
  remove_group(group);
  return false;
}

/* Below our own group; else, since a group of version 2 with processes in it cannot have such
 * groups below it, below the root. */
static bool find_group(struct group *group) {
  struct container own;
  container_read(&own);
  if (own.directory[0] == 0) print_message("no group of this process is to be seen\n");
  else if (make_group(group, own.directory)) return true;
  return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 &&
         make_group(group, "/sys/fs/cgroup");
}

/* What `body` returns when it runs in the group. */
static int run_in(const struct group *group, int (*body)(const struct group *)) {
  pid_t child = fork();
  if (child == 0) _exit(write_file(group->inner, "cgroup.procs", "0") ? body(group) : 99);
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return 1000 + WTERMSIG(status);
  return WEXITSTATUS(status);
}

/* --- what a child sees ------------------------------------------------------------------------ */

/* Fails with the number of the line. */
#define SEE(what)                                                                                  \
  do {                                                                                             \
    if (!(what)) return fprintf(stderr, "not so: %s\n", #what), 1;                                 \
  } while (0)

static int see_the_limit(const struct group *group) {
  struct container container;
  container_read(&container);
  SEE(container.limit_bytes == LIMIT);
  SEE(container.first_version == group->first_version);
  SEE(strcmp(container.directory, group->inner) == 0);
  SEE(container.level_count >= 2);
  uint64_t current = container_current(&container);
  SEE(current > 0 && current < LIMIT);
  SEE(!container_is_tight(&container));

  size_t bytes = 60 * MIB, touched = 0;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SEE(memory != MAP_FAILED);
  /* In small steps: a sanitizer's shadow of them counts too. */
  for (; touched < bytes && !container_is_tight(&container); touched += MIB / 2)
    memset(memory + touched, 1, MIB / 2);
  SEE(container_is_tight(&container));
  SEE(container_current(&container) > LIMIT / 10 * 9);
  SEE(madvise(memory, bytes, MADV_DONTNEED) == 0);
  SEE(!container_is_tight(&container)); /* given back: there is room again */
  return 0;
}

/* A limit that is set while the program runs is seen when it reads again. */
static int see_a_change(const struct group *group) {
  struct container container;
  container_read(&container);
  SEE(write_file(group->outer, limit_file(group), "32M"));
  container_read(&container);
  SEE(container.limit_bytes == 32 * MIB);
  if (!group->first_version) {
    SEE(write_file(group->inner, "memory.high", "16M"));
    container_read(&container);
    SEE(container.high_bytes == 16 * MIB);
    SEE(!container_is_tight(&container));
    SEE(write_file(group->inner, "memory.high", "0"));
    container_read(&container);
    SEE(container.high_bytes == 1);
    SEE(container_is_tight(&container));
  }
  return 0;
}

/* Seen from a namespace of its own the group is "/": only what is mounted anew there fits that. */
static int see_a_namespace(const struct group *group) {
  (void)group;
  struct container container;
  if (unshare(CLONE_NEWCGROUP) != 0) return 77;
  container_read(&container);
  SEE(container.limit_bytes == 0 || container.limit_bytes == LIMIT);
  for (const char *at = container.directory; *at != 0; at++) SEE(strncmp(at, "/..", 3) != 0);
  return 0;
}

static struct group group;

static void a_child_reads_its_limit(void **state) {
  (void)state;
  assert_int_equal(run_in(&group, see_the_limit), 0);
}

static void a_namespace_leads_nowhere_else(void **state) {
  (void)state;
  int result = run_in(&group, see_a_namespace);
  if (result == 77) print_message("no new cgroup namespace may be made here\n");
  else assert_int_equal(result, 0);
}

static void a_changed_limit_is_seen(void **state) {
  (void)state;
  assert_int_equal(run_in(&group, see_a_change), 0);
}

static int remove_it(void **state) {
  (void)state;
  remove_group(&group);
  return access(group.outer, F_OK) == 0 ? -1 : 0; /* nothing may be left behind */
}

/* --- pressure --------------------------------------------------------------------------------- */

static void a_trigger_tells_nothing_twice(void **state) {
  (void)state;
  struct container own;
  container_read(&own);
  errno = 1234;
  int file = container_pressure_open(&own);
  assert_int_equal(errno, 1234);
  if (file < 0) {
    print_message("no pressure file here that may be written to\n");
    skip();
  }
  assert_int_equal(fcntl(file, F_GETFD), FD_CLOEXEC);
  /* Whatever other programs wait for counts, too. But nothing is told twice within the two seconds of the window. */
  unsigned news = 0;
  for (unsigned look = 0; look < 100; look++) {
    enum os_file_event event = os_file_wait(file, look == 0 ? 50 : 0);
    assert_int_not_equal(event, OS_FILE_GONE);
    news += event == OS_FILE_NEWS;
  }
  assert_in_range(news, 0, 2); /* two: should the machine stop between two looks */
  os_file_close(file);
}

int main(void) {
  const struct CMUnitTest pressure[] = {cmocka_unit_test(a_trigger_tells_nothing_twice)};
  const struct CMUnitTest groups[] = {
      cmocka_unit_test(a_child_reads_its_limit),
      cmocka_unit_test(a_namespace_leads_nowhere_else),
      cmocka_unit_test(a_changed_limit_is_seen),
  };
  SET_OPTION(CONTAINER, 1);
  int failed = cmocka_run_group_tests_name("pressure", pressure, NULL, NULL);
  if (failed != 0) return failed;
  if (!find_group(&group)) {
    printf("skipped: no group with a memory limit can be made here (reasons above)\n");
    return 77;
  }
  return cmocka_run_group_tests_name("groups", groups, NULL, remove_it);
}
