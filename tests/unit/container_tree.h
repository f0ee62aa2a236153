/* container_tree.h - made-up control groups for the tests of container.c: a directory stands for the root
 * of the file system, files in it for those of /proc. */
#ifndef CONTAINER_TREE_H
#define CONTAINER_TREE_H

#include "unit_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "os/fault.h"
#include "policy/container.h"
#include "policy/options.h"

static char root[64];
static char cgroup[96], mountinfo[96], pressure[96];
static const struct container_places places = {cgroup, mountinfo, pressure, root};
static struct container container;

#define V2_MOUNT                                                                                   \
  "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define UNIFIED_MOUNT "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
#define OTHER_MOUNTS                                                                               \
  "22 27 0:21 / /proc rw,relatime - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n"

static inline int remove_entry(const char *path, const struct stat *about, int type,
                               struct FTW *where) {
  (void)about;
  (void)type;
  (void)where;
  return remove(path);
}

static inline int open_files(void) {
  int count = 0;
  DIR *directory = opendir("/proc/self/fd");
  while (readdir(directory) != NULL) count++;
  closedir(directory);
  return count;
}

static int files_before;

static inline int plant(void **state) {
  (void)state;
  snprintf(root, sizeof root, "/tmp/hakmem-container-XXXXXX");
  if (mkdtemp(root) == NULL) return -1;
  snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
  snprintf(mountinfo, sizeof mountinfo, "%s/mountinfo", root);
  snprintf(pressure, sizeof pressure, "%s/pressure", root);
  SET_OPTION(CONTAINER, 1);
  os_fault_reset();
  files_before = open_files();
  return 0;
}

static inline int fell(void **state) {
  (void)state;
  os_fault_reset();
  nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  return open_files() == files_before ? 0 : -1; /* nothing was left open */
}

static inline void put_bytes(const char *path, const void *bytes, size_t length) {
  char part[8192];
  for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    mkdir(part, 0700);
  }
  unlink(path); /* file systems write out at once what is cut to nothing and written again */
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  assert_true(file >= 0);
  assert_int_equal(write(file, bytes, length), length);
  close(file);
}

/* A file below the root. */
static inline void put(const char *name, const char *text) {
  char path[8192];
  snprintf(path, sizeof path, "%s%s", root, name);
  put_bytes(path, text, strlen(text));
}

static inline void tell(const char *groups, const char *mounts) {
  put_bytes(cgroup, groups, strlen(groups));
  put_bytes(mountinfo, mounts, strlen(mounts));
}

/* What is filled in twice is filled in whole: nothing is left of the first time. */
static inline void read_tree(void) {
  errno = 1234;
  memset(&container, 0xee, sizeof container);
  container_read_at(&container, &places);
  assert_int_equal(errno, 1234);
}

static inline void assert_limits(uint64_t limit, uint64_t high) {
  read_tree();
  assert_int_equal(container.limit_bytes, limit);
  assert_int_equal(container.high_bytes, high);
}

static inline void assert_directory(const char *group) {
  char path[CONTAINER_PATH + 64];
  snprintf(path, sizeof path, "%s%s", root, group);
  assert_string_equal(container.directory, path);
}

static inline void assert_nothing(void) {
  assert_limits(0, 0);
  assert_int_equal(container.level_count, 0);
  assert_int_equal(container_current(&container), 0);
  assert_false(container_is_tight(&container));
}

/* A group of two levels, used by many tests: 1 GiB outside, 512 MiB inside. */
static inline void plant_two_levels(void) {
  tell("0::/outer/inner\n", OTHER_MOUNTS V2_MOUNT);
  put("/sys/fs/cgroup/outer/memory.max", "1073741824\n");
  put("/sys/fs/cgroup/outer/memory.high", "max\n");
  put("/sys/fs/cgroup/outer/memory.current", "600\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "536870912\n");
  put("/sys/fs/cgroup/outer/inner/memory.high", "max\n");
  put("/sys/fs/cgroup/outer/inner/memory.current", "500\n");
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, plant, fell)

#endif
