/* room_container.c - limits and pressure of control groups, read from made-up trees: a directory stands
 * for the root of the file system, files in it for those of /proc. */
#include "unit_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "os/fault.h"
#include "os/file.h"
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

/* --- the tree ------------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where) {
  (void)about;
  (void)type;
  (void)where;
  return remove(path);
}

static int open_files(void) {
  int count = 0;
  DIR *directory = opendir("/proc/self/fd");
  while (readdir(directory) != NULL) count++;
  closedir(directory);
  return count;
}

static int files_before;

static int plant(void **state) {
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

static int fell(void **state) {
  (void)state;
  os_fault_reset();
  nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  return open_files() == files_before ? 0 : -1; /* nothing was left open */
}

static void put_bytes(const char *path, const void *bytes, size_t length) {
  char part[8192];
  for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    mkdir(part, 0700);
  }
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(file >= 0);
  assert_int_equal(write(file, bytes, length), length);
  close(file);
}

/* A file below the root. */
static void put(const char *name, const char *text) {
  char path[8192];
  snprintf(path, sizeof path, "%s%s", root, name);
  put_bytes(path, text, strlen(text));
}

static void tell(const char *groups, const char *mounts) {
  put_bytes(cgroup, groups, strlen(groups));
  put_bytes(mountinfo, mounts, strlen(mounts));
}

/* What is filled in twice is filled in whole: nothing is left of the first time. */
static void read_tree(void) {
  errno = 1234;
  memset(&container, 0xee, sizeof container);
  container_read_at(&container, &places);
  assert_int_equal(errno, 1234);
}

static void assert_limits(uint64_t limit, uint64_t high) {
  read_tree();
  assert_int_equal(container.limit_bytes, limit);
  assert_int_equal(container.high_bytes, high);
}

static void assert_directory(const char *group) {
  char path[CONTAINER_PATH + 64];
  snprintf(path, sizeof path, "%s%s", root, group);
  assert_string_equal(container.directory, path);
}

static void assert_nothing(void) {
  assert_limits(0, 0);
  assert_int_equal(container.level_count, 0);
  assert_int_equal(container_current(&container), 0);
  assert_false(container_is_tight(&container));
}

/* A group of two levels, used by many tests: 1 GiB outside, 512 MiB inside. */
static void plant_two_levels(void) {
  tell("0::/outer/inner\n", OTHER_MOUNTS V2_MOUNT);
  put("/sys/fs/cgroup/outer/memory.max", "1073741824\n");
  put("/sys/fs/cgroup/outer/memory.high", "max\n");
  put("/sys/fs/cgroup/outer/memory.current", "600\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "536870912\n");
  put("/sys/fs/cgroup/outer/inner/memory.high", "max\n");
  put("/sys/fs/cgroup/outer/inner/memory.current", "500\n");
}

/* --- limits --------------------------------------------------------------------------------------- */

static void the_smallest_limit_of_all_levels_counts(void **state) {
  (void)state;
  plant_two_levels();
  assert_limits(512 * MIB, 0);
  assert_int_equal(container.level_count, 2);
  assert_false(container.first_version);
  assert_directory("/sys/fs/cgroup/outer/inner");
  assert_int_equal(container_current(&container), 500);

  put("/sys/fs/cgroup/outer/memory.max", "4096\n");
  assert_limits(4096, 0);
  assert_int_equal(container_current(&container), 600); /* of the group that has the limit */

  put("/sys/fs/cgroup/outer/memory.max", "max\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put("/sys/fs/cgroup/memory.max", "8192\n"); /* the root of what is mounted here */
  put("/sys/fs/cgroup/memory.current", "700\n");
  assert_limits(8192, 0);
  assert_int_equal(container.level_count, 1);
  assert_int_equal(container_current(&container), 700);
  put("/sys/fs/memory.max", "1\n"); /* above it */
  assert_limits(8192, 0);
}

static void high_counts_on_its_own(void **state) {
  (void)state;
  plant_two_levels();
  put("/sys/fs/cgroup/outer/memory.high", "262144\n");
  assert_limits(512 * MIB, 256 * KIB);
  assert_int_equal(container_current(&container), 600);
  put("/sys/fs/cgroup/outer/inner/memory.high", "131072\n");
  assert_limits(512 * MIB, 128 * KIB);
  assert_int_equal(container_current(&container), 500);
}

static void without_limits_there_are_none(void **state) {
  (void)state;
  assert_nothing(); /* no file at all */
  tell("0::/outer/inner\n", OTHER_MOUNTS);
  assert_nothing(); /* not mounted */
  assert_string_equal(container.directory, "");
  tell("0::/outer/inner\n", OTHER_MOUNTS V2_MOUNT);
  assert_nothing(); /* no such directory */
  assert_directory("/sys/fs/cgroup/outer/inner");
  plant_two_levels();
  put("/sys/fs/cgroup/outer/memory.max", "max\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  assert_nothing();
  plant_two_levels();
  unlink(mountinfo);
  assert_nothing();
  plant_two_levels();
  unlink(cgroup);
  assert_nothing();
  assert_string_equal(container.directory, "");
}

static void a_level_without_files_is_passed_over(void **state) {
  (void)state;
  plant_two_levels();
  tell("0::/outer/inner/leaf/gone (deleted)\n", V2_MOUNT);
  assert_limits(512 * MIB, 0);
  assert_int_equal(container.level_count, 2);
}

static void numbers_are_understood_or_none(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } numbers[] = {
      {"", 0},
      {"\n", 0},
      {"max", 0},
      {"max\n", 0},
      {"maximum\n", 0},
      {"-1\n", 0},
      {"+5\n", 0},
      {" 5\n", 0},
      {"5 \n", 0},
      {"5x\n", 0},
      {"0x10\n", 0},
      {"1.5\n", 0},
      {"\xff\xfe\n", 0},
      {"9223372036854771712\n", 0}, /* how v1 says "none" */
      {"9223372036854775807\n", 0},
      {"18446744073709551615\n", 0},
      {"18446744073709551616\n", 0},
      {"18446744073709555712\n", 0}, /* 2^64 + 4096 */
      {"99999999999999999999999999999999999999999999999999999999999999999999999999999999\n", 0},
      {"1152921504606846976\n", 0},
      {"1152921504606846975\n", UINT64_C(1152921504606846975)},
      {"0\n", 1}, /* nothing allowed at all is not "none" */
      {"1", 1},
      {"4096", 4096},
      {"0000000000004096\n", 4096},
      {"10995116277760\n", UINT64_C(10995116277760)},
  };
  tell("0::/g\n", V2_MOUNT);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    put("/sys/fs/cgroup/g/memory.max", numbers[i].text);
    put("/sys/fs/cgroup/g/memory.high", "max\n");
    assert_limits(numbers[i].bytes, 0);
    put("/sys/fs/cgroup/g/memory.max", "max\n");
    put("/sys/fs/cgroup/g/memory.high", numbers[i].text);
    assert_limits(0, numbers[i].bytes);
  }
}

/* Root may open everything: what stands there for a file that cannot be read is a directory, a pipe that
 * nobody writes to, and a link to itself. */
static void what_cannot_be_read_is_no_limit(void **state) {
  (void)state;
  char path[128];
  for (int kind = 0; kind < 4; kind++) {
    plant_two_levels();
    snprintf(path, sizeof path, "%s/sys/fs/cgroup/outer/inner/memory.max", root);
    if (kind == 0) {
      if (geteuid() == 0) continue;
      assert_int_equal(chmod(path, 0), 0);
    } else {
      assert_int_equal(unlink(path), 0);
      if (kind == 1) assert_int_equal(mkdir(path, 0700), 0);
      if (kind == 2) assert_int_equal(mkfifo(path, 0700), 0);
      if (kind == 3) assert_int_equal(symlink("memory.max", path), 0);
    }
    assert_limits(GIB, 0);
    assert_int_equal(remove(path), 0);
  }
  plant_two_levels();
  unlink(cgroup);
  assert_int_equal(mkdir(cgroup, 0700), 0);
  assert_nothing();
  rmdir(cgroup);
  plant_two_levels();
  unlink(mountinfo);
  assert_int_equal(mkfifo(mountinfo, 0700), 0);
  assert_nothing();
}

static void levels_beyond_the_room_are_left_out(void **state) {
  (void)state;
  char groups[256] = "0::", path[512] = "/sys/fs/cgroup";
  enum { DEPTH = CONTAINER_LEVELS + 3 };
  for (int i = 0; i < DEPTH; i++) {
    char name[300 + 256], limit[32];
    strcat(groups, "/g");
    strcat(path, "/g");
    snprintf(name, sizeof name, "%s/memory.max", path);
    snprintf(limit, sizeof limit, "%d\n", 1000 + i); /* the smaller the higher */
    put(name, limit);
  }
  strcat(groups, "\n");
  tell(groups, V2_MOUNT);
  assert_limits(1000 + DEPTH - CONTAINER_LEVELS, 0);
  assert_int_equal(container.level_count, CONTAINER_LEVELS);
}

/* --- where the group is --------------------------------------------------------------------------------- */

static void mount_points_may_hold_any_byte(void **state) {
  (void)state;
  tell("0::/a b\n",
       "31 23 0:28 / /mnt/with\\040space\\011and\\134back\\012line rw - cgroup2 none rw\n");
  put("/mnt/with space\tand\\back\nline/a b/memory.max", "4096\n");
  assert_limits(4096, 0);
  /* Not octal numbers of three digits: taken as they are. */
  tell("0::/g\n", "31 23 0:28 / /mnt\\04\\999\\ rw - cgroup2 none rw\n");
  put("/mnt\\04\\999\\/g/memory.max", "8192\n");
  assert_limits(8192, 0);
  tell("0::/with space/x:y\n",
       "31 23 0:28 /with\\040space /mnt rw a:1 b:2 - cgroup2 my\\040name rw\n");
  put("/mnt/x:y/memory.max", "12288\n");
  assert_limits(12288, 0);
}

/* What a process sees of its group and of the mounted tree's root, and where that leads. */
static void namespaces_and_parts_of_trees(void **state) {
  (void)state;
  static const struct {
    const char *group, *top, *below; /* NULL: not to be reached */
  } cases[] = {
      {"/", "/", ""},
      {"/g", "/", "/g"},
      {"/docker/abc", "/docker/abc", ""},
      {"/docker/abc/sub/sub", "/docker/abc", "/sub/sub"},
      {"/docker/abcd", "/docker/abc", NULL},
      {"/docker", "/docker/abc", NULL},
      {"/", "/docker/abc", NULL},
      {"/other", "/docker/abc", NULL},
      {"/..", "/", NULL}, /* moved out of its namespace */
      {"/../..", "/", NULL},
      {"/../../evil", "/", NULL},
      {"/g/../evil", "/", NULL},
      {"/g/..", "/", NULL},
      {"/../g", "/..", "/g"}, /* mounted from outside of the namespace */
      {"/../../g", "/../..", "/g"},
      {"/../..", "/../..", ""},
      {"/../../evil", "/..", NULL},
      {"/", "/..", NULL},
      {"/g", "/../..", NULL},
      {"/..g", "/", "/..g"}, /* only names */
      {"/...", "/", "/..."},
      {"/g..", "/", "/g.."},
      {"relative", "/", NULL},
      {"", "/", NULL},
  };
  put("/sys/fs/evil/memory.max", "1\n");
  put("/sys/fs/memory.max", "1\n");
  put("/sys/evil/memory.max", "1\n");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char groups[128], mounts[256], file[128];
    uint64_t bytes = 4096 * (i + 2);
    snprintf(groups, sizeof groups, "0::%s\n", cases[i].group);
    snprintf(mounts, sizeof mounts, "31 23 0:28 %s /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
             cases[i].top);
    tell(groups, mounts);
    if (cases[i].below == NULL) {
      assert_nothing();
      assert_string_equal(container.directory, "");
      continue;
    }
    char limit[32];
    snprintf(file, sizeof file, "/sys/fs/cgroup%s/memory.max", cases[i].below);
    snprintf(limit, sizeof limit, "%llu\n", (unsigned long long)bytes);
    put(file, limit);
    assert_limits(bytes, 0);
    snprintf(file, sizeof file, "/sys/fs/cgroup%s", cases[i].below);
    assert_directory(file);
    snprintf(file, sizeof file, "%s/sys/fs/cgroup%s/memory.max", root, cases[i].below);
    unlink(file);
  }
}

static void of_several_mounts_the_one_that_shows_most_is_taken(void **state) {
  (void)state;
  static const char whole[] = "31 23 0:28 / /whole rw - cgroup2 cgroup2 rw\n",
                    part[] = "32 23 0:28 /outer /part rw - cgroup2 cgroup2 rw\n",
                    later[] = "33 23 0:28 / /later rw - cgroup2 cgroup2 rw\n";
  char mounts[512];
  put("/whole/outer/g/memory.max", "3000\n");
  put("/whole/outer/memory.max", "1000\n");
  put("/part/g/memory.max", "3000\n");
  put("/later/outer/g/memory.max", "4000\n");
  snprintf(mounts, sizeof mounts, "%s%s", whole, part);
  tell("0::/outer/g\n", mounts);
  assert_limits(1000, 0);
  snprintf(mounts, sizeof mounts, "%s%s", part, whole);
  tell("0::/outer/g\n", mounts);
  assert_limits(1000, 0);
  snprintf(mounts, sizeof mounts, "%s%s", whole, later); /* may cover it */
  tell("0::/outer/g\n", mounts);
  assert_limits(4000, 0);
  tell("0::/outer/g\n", part);
  assert_limits(3000, 0);
}

static void lines_that_are_none_are_passed_over(void **state) {
  (void)state;
  static const char *const mounts[] = {
      "\n\n" V2_MOUNT,
      "31\n31 23\n31 23 0:28\n31 23 0:28 /\n31 23 0:28 / /x\n31 23 0:28 / /x rw -\n" V2_MOUNT,
      "31 23 0:28 /elsewhere /x rw - cgroup2 cgroup2 rw\n" V2_MOUNT,
      "31 23 0:28 / relative rw - cgroup2 cgroup2 rw\n" V2_MOUNT,
      "31 23 0:28 relative /x rw - cgroup2 cgroup2 rw\n" V2_MOUNT,
      "31 23 0:28 / /x rw - cgroup2x cgroup2 rw\n" V2_MOUNT,
      "31 23 0:28 / /x rw cgroup2 cgroup2 rw\n" V2_MOUNT,
      "31 23 0:28 / /x rw - cgroup cgroup rw,cpu\n31 23 0:28 / /x rw - cgroup cgroup\n" V2_MOUNT,
      " - cgroup2 x y\n - \n-\n" V2_MOUNT,
  };
  plant_two_levels();
  for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
    tell("garbage\n\n:\n::\n1:\n1:x\n12:cpu:/elsewhere\n0::/outer/inner\n:::::\n", mounts[i]);
    assert_limits(512 * MIB, 0);
  }
  tell("1::/outer/inner\n00::/outer/inner\n0:x:/outer/inner\n0:/outer/inner\n", V2_MOUNT);
  assert_nothing(); /* version 2 is the line that starts with 0:: */
}

/* One character more than fits at the end of each path. */
static void paths_that_do_not_fit_are_no_limit(void **state) {
  (void)state;
  char *groups = malloc(20000), *mounts = malloc(20000), *name = malloc(20000);
  /* The longest group of which memory.max and everything else can be named, then longer ones. */
  size_t above = strlen(root) + strlen("/sys/fs/cgroup");
  for (size_t length = 900 - above; length < 1200; length++) {
    strcpy(groups, "0::");
    for (size_t i = 0; i < length; i++) groups[3 + i] = i % 200 == 0 ? '/' : 'g';
    strcpy(groups + 3 + length, groups[2 + length] == '/' ? "g\n" : "\n");
    size_t whole = strlen(groups) - 4;
    bool fits = above + whole + strlen("/memory.max") < CONTAINER_PATH;
    tell(groups, V2_MOUNT);
    snprintf(name, 20000, "/sys/fs/cgroup%.*s/memory.max", (int)whole, groups + 3);
    put(name, "4096\n");
    assert_limits(fits ? 4096 : 0, 0);
  }
  /* A mount point that is too long, and lines that are. */
  memset(name, 'x', 19000);
  name[0] = '/';
  for (size_t length = 500; length < 19000; length += 1500) {
    snprintf(mounts, 20000, "31 23 0:28 / %.*s rw - cgroup2 cgroup2 rw\n" V2_MOUNT, (int)length,
             name);
    tell("0::/\n", mounts);
    put("/sys/fs/cgroup/memory.max", "8192\n");
    assert_limits(8192, 0);
    snprintf(groups, 20000, "5:cpu:%.*s\n0::/\n", (int)length, name);
    tell(groups, V2_MOUNT);
    assert_limits(8192, 0);
    snprintf(groups, 20000, "0::%.*s\n", (int)length, name);
    tell(groups, V2_MOUNT);
    read_tree();
    assert_int_equal(container.limit_bytes, length < CONTAINER_PATH - above ? 8192 : 0);
  }
  free(groups);
  free(mounts);
  free(name);
}

/* --- version 1 ------------------------------------------------------------------------------------------ */

static void version_1_has_its_own_names(void **state) {
  (void)state;
  tell("9:name=memory:/wrong\n5:cpu,cpuacct:/wrong\n4:hugetlb,memory:/outer/g\n0::/\n",
       OTHER_MOUNTS "33 31 0:30 / /wrong rw - cgroup cgroup rw,name=memory\n"
                    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup none rw,hugetlb,memory\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "100000\n");
  put("/sys/fs/cgroup/memory/outer/memory.usage_in_bytes", "95000\n");
  put("/sys/fs/cgroup/memory/outer/g/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/outer/g/memory.max", "1\n"); /* not a name of version 1 */
  put("/sys/fs/cgroup/memory/outer/g/memory.high", "1\n");
  put("/sys/fs/cgroup/memory/outer/memory.stat",
      "cache 10\ninactive_file 50000\ntotal_inactive_file 4999\n");
  assert_limits(100000, 0);
  assert_true(container.first_version);
  assert_int_equal(container.level_count, 1);
  assert_int_equal(container_current(&container), 95000);
  assert_true(container_is_tight(&container));
  put("/sys/fs/cgroup/memory/outer/memory.stat", "total_inactive_file 5000\n");
  assert_false(container_is_tight(&container));
  /* A container of old: its own part of the tree, with the path as seen from outside. */
  tell("4:memory:/outer/g\n",
       "35 31 0:32 /outer /sys/fs/cgroup/memory/outer ro - cgroup cgroup rw,memory\n");
  assert_limits(100000, 0);
}

static void memory_is_in_one_of_two_versions(void **state) {
  (void)state;
  put("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "100000\n");
  put("/sys/fs/cgroup/unified/u/memory.max", "200000\n");
  tell("4:memory:/g\n0::/u\n", OTHER_MOUNTS V1_MOUNT UNIFIED_MOUNT);
  assert_limits(100000, 0);
  assert_true(container.first_version);
  assert_directory("/sys/fs/cgroup/memory/g");
  assert_non_null(strstr(container.pressure_of, "/sys/fs/cgroup/unified/u"));
  tell("4:memory:/g\n0::/u\n", OTHER_MOUNTS UNIFIED_MOUNT V1_MOUNT);
  assert_limits(100000, 0);
  /* The controller belongs to version 2, or to a version 1 that cannot be seen from here. */
  tell("4:cpu:/g\n0::/u\n", OTHER_MOUNTS V1_MOUNT UNIFIED_MOUNT);
  assert_limits(200000, 0);
  assert_false(container.first_version);
  assert_directory("/sys/fs/cgroup/unified/u");
  tell("4:memory:/g\n0::/u\n", OTHER_MOUNTS UNIFIED_MOUNT);
  assert_limits(200000, 0);
  tell("4:memory:/g\n0::/u\n", OTHER_MOUNTS V1_MOUNT);
  assert_limits(100000, 0);
  assert_string_equal(container.pressure_of, "");
}

/* --- tight -------------------------------------------------------------------------------------------- */

static bool tight_with(const char *level, uint64_t current) {
  char name[128], text[32];
  snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.current", level);
  snprintf(text, sizeof text, "%llu\n", (unsigned long long)current);
  put(name, text);
  return container_is_tight(&container);
}

static void tight_is_beyond_nine_tenths(void **state) {
  (void)state;
  plant_two_levels();
  put("/sys/fs/cgroup/outer/memory.max", "300000\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "100000\n");
  assert_limits(100000, 0);
  assert_false(container_is_tight(&container));
  assert_false(tight_with("/outer/inner", 90000));
  assert_true(tight_with("/outer/inner", 90001));
  assert_true(tight_with("/outer/inner", 5000000));
  assert_false(tight_with("/outer/inner", 0));
  /* A larger limit may be the nearer one: others use that group too. */
  assert_false(tight_with("/outer", 270000));
  assert_true(tight_with("/outer", 270001));
  put("/sys/fs/cgroup/outer/memory.current", "garbage\n");
  assert_false(container_is_tight(&container));
  put("/sys/fs/cgroup/outer/inner/memory.max", "18000000000000000000\n");
  put("/sys/fs/cgroup/outer/memory.max", "1152921504606846975\n");
  read_tree();
  assert_false(tight_with("/outer", UINT64_C(1037629354146162276)));
  assert_true(tight_with("/outer", UINT64_C(1037629354146162280)));
}

static void tight_is_beyond_high(void **state) {
  (void)state;
  plant_two_levels();
  put("/sys/fs/cgroup/outer/memory.high", "50000\n");
  read_tree();
  assert_false(tight_with("/outer", 50000));
  assert_true(tight_with("/outer", 50001));
}

static void idle_caches_of_files_do_not_make_it_tight(void **state) {
  (void)state;
  plant_two_levels();
  put("/sys/fs/cgroup/outer/inner/memory.max", "100000\n");
  read_tree();
  put("/sys/fs/cgroup/outer/inner/memory.stat",
      "anon 1\nfile 60000\ninactive_anon 99\ninactive_file 8000\nactive_file 7\n");
  assert_false(tight_with("/outer/inner", 98000));
  assert_true(tight_with("/outer/inner", 98001));
  put("/sys/fs/cgroup/outer/inner/memory.stat", "inactive_file 900000\n"); /* counted later */
  assert_false(tight_with("/outer/inner", 98001));
  put("/sys/fs/cgroup/outer/inner/memory.stat",
      "\n\ninactive_file\ninactive_file x\n inactive_file 9");
  assert_true(tight_with("/outer/inner", 98001));
}

/* --- pressure ----------------------------------------------------------------------------------------- */

static void assert_trigger_in(const char *name) {
  char path[256], text[64] = "";
  snprintf(path, sizeof path, "%s%s", root, name);
  int file = open(path, O_RDONLY);
  assert_true(file >= 0);
  assert_int_equal(read(file, text, sizeof text), 20);
  assert_memory_equal(text, "some 100000 2000000", 20); /* with its 0 */
  close(file);
}

static void pressure_is_asked_of_the_group_then_of_the_machine(void **state) {
  (void)state;
  plant_two_levels();
  put("/sys/fs/cgroup/outer/inner/memory.pressure", "");
  put("/pressure", "");
  read_tree();
  errno = 1234;
  int file = container_pressure_open_at(&container, &places);
  assert_true(file >= 0);
  assert_int_equal(errno, 1234);
  assert_int_equal(fcntl(file, F_GETFD), FD_CLOEXEC);
  assert_int_equal(os_file_wait(file, 0), OS_FILE_TIMEOUT);
  os_file_close(file);
  assert_trigger_in("/sys/fs/cgroup/outer/inner/memory.pressure");

  put("/sys/fs/cgroup/outer/memory.pressure", ""); /* not ours */
  char name[128];
  snprintf(name, sizeof name, "%s/sys/fs/cgroup/outer/inner/memory.pressure", root);
  unlink(name);
  file = container_pressure_open_at(&container, &places);
  assert_true(file >= 0);
  os_file_close(file);
  assert_trigger_in("/pressure");

  put("/pressure", "");
  assert_int_equal(symlink("/dev/full", name), 0); /* there, but refuses what is written */
  file = container_pressure_open_at(&container, &places);
  assert_true(file >= 0);
  os_file_close(file);
  assert_trigger_in("/pressure");

  unlink(pressure);
  assert_int_equal(symlink("/dev/full", pressure), 0);
  assert_int_equal(container_pressure_open_at(&container, &places), -1);
  unlink(pressure);
  assert_int_equal(mkdir(pressure, 0700), 0);
  assert_int_equal(container_pressure_open_at(&container, &places), -1);
  rmdir(pressure);
  errno = 1234;
  assert_int_equal(container_pressure_open_at(&container, &places), -1);
  assert_int_equal(errno, 1234);
}

static void version_1_has_the_pressure_of_version_2(void **state) {
  (void)state;
  tell("4:memory:/g\n0::/u\n", V1_MOUNT UNIFIED_MOUNT);
  put("/sys/fs/cgroup/memory/g/memory.pressure", "");
  put("/sys/fs/cgroup/unified/u/memory.pressure", "");
  read_tree();
  int file = container_pressure_open_at(&container, &places);
  assert_true(file >= 0);
  os_file_close(file);
  assert_trigger_in("/sys/fs/cgroup/unified/u/memory.pressure");
}

/* --- off, and failing --------------------------------------------------------------------------------- */

static void switched_off_it_reads_nothing(void **state) {
  (void)state;
#if HAK_FAST
  print_message("the fast variant has its options fixed at compile time\n");
  skip();
#endif
  plant_two_levels();
  put("/pressure", "");
  SET_OPTION(CONTAINER, 0);
  os_fault_reset();
  assert_nothing();
  assert_string_equal(container.directory, "");
  assert_int_equal(container_pressure_open_at(&container, &places), -1);
  container_read(&container);
  assert_int_equal(container_pressure_open(&container), -1);
  assert_int_equal(os_fault_calls(), 0); /* no system call was asked for */
}

static void use_it_all(void) {
  read_tree();
  assert_true(container.limit_bytes == 0 || container.limit_bytes == 512 * MIB ||
              container.limit_bytes == GIB);
  assert_int_equal(container.high_bytes, 0);
  uint64_t current = container_current(&container);
  assert_true(current == 0 || current == 600 || current == 495000000);
  container_is_tight(&container);
  int file = container_pressure_open_at(&container, &places);
  if (file >= 0) {
    os_file_wait(file, 0);
    os_file_close(file);
  }
  assert_int_equal(errno, 1234);
}

static void every_call_can_fail(void **state) {
  (void)state;
  plant_two_levels();
  put("/sys/fs/cgroup/outer/inner/memory.current", "495000000\n");
  put("/sys/fs/cgroup/outer/inner/memory.stat", "inactive_file 1000\n");
  put("/sys/fs/cgroup/outer/inner/memory.pressure", "");
  put("/pressure", "");
  os_fault_reset();
  use_it_all();
  uint64_t calls = os_fault_calls();
  assert_int_equal(container.limit_bytes, 512 * MIB);
  assert_true(container_is_tight(&container));
  assert_true(calls > 15);
  for (uint64_t n = 1; n <= calls; n++) {
    os_fault_reset();
    os_fault_fail_nth(n);
    use_it_all();
    assert_int_equal(os_fault_injected(), 1);
    os_fault_reset();
    os_fault_fail_from(n);
    use_it_all();
    assert_true(os_fault_injected() >= 1);
    assert_false(container_is_tight(&container));
    assert_int_equal(container_current(&container), 0);
  }
  for (uint32_t seed = 1; seed <= 200; seed++) {
    os_fault_reset();
    os_fault_random(seed, 200);
    use_it_all();
  }
  os_fault_reset();
  os_fault_fail_from(1);
  assert_nothing();
  assert_string_equal(container.directory, "");
  assert_int_equal(container_pressure_open_at(&container, &places), -1);
}

/* Bytes of good files changed at random: whatever comes out, nothing outside of the tree is opened and
 * nothing breaks (under the sanitizers: nor is anything read out of bounds). */
static void files_may_hold_anything(void **state) {
  (void)state;
  static const char good_groups[] = "9:name=systemd:/\n4:memory:/g\n0::/outer/inner\n";
  static const char good_mounts[] = OTHER_MOUNTS V2_MOUNT V1_MOUNT UNIFIED_MOUNT;
  static const char likely[] = "/:.\\ -\n0,";
  uint64_t random = 11;
  plant_two_levels();
  put("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "100000\n");
  for (int round = 0; round < 2000; round++) {
    char groups[sizeof good_groups], mounts[sizeof good_mounts];
    memcpy(groups, good_groups, sizeof groups);
    memcpy(mounts, good_mounts, sizeof mounts);
    for (uint64_t change = random_below(&random, 12); change > 0; change--) {
      char byte = random_below(&random, 2) ? (char)random_below(&random, 256)
                                           : likely[random_below(&random, sizeof likely - 1)];
      if (random_below(&random, 3) == 0) groups[random_below(&random, sizeof groups - 1)] = byte;
      else mounts[random_below(&random, sizeof mounts - 1)] = byte;
    }
    put_bytes(cgroup, groups, random_below(&random, 4) ? sizeof groups - 1 : round % sizeof groups);
    put_bytes(mountinfo, mounts,
              random_below(&random, 4) ? sizeof mounts - 1 : round % sizeof mounts);
    read_tree();
    assert_int_equal(container.high_bytes, 0);
    assert_true(container.limit_bytes == 0 || container.limit_bytes == 100000 ||
                container.limit_bytes == 512 * MIB || container.limit_bytes == GIB);
    assert_true(container.directory[0] == 0 ||
                strncmp(container.directory, root, strlen(root)) == 0);
  }
}

int main(void) {
#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, plant, fell)
  const struct CMUnitTest tests[] = {
      TREE_TEST(the_smallest_limit_of_all_levels_counts),
      TREE_TEST(high_counts_on_its_own),
      TREE_TEST(without_limits_there_are_none),
      TREE_TEST(a_level_without_files_is_passed_over),
      TREE_TEST(numbers_are_understood_or_none),
      TREE_TEST(what_cannot_be_read_is_no_limit),
      TREE_TEST(levels_beyond_the_room_are_left_out),
      TREE_TEST(mount_points_may_hold_any_byte),
      TREE_TEST(namespaces_and_parts_of_trees),
      TREE_TEST(of_several_mounts_the_one_that_shows_most_is_taken),
      TREE_TEST(lines_that_are_none_are_passed_over),
      TREE_TEST(paths_that_do_not_fit_are_no_limit),
      TREE_TEST(version_1_has_its_own_names),
      TREE_TEST(memory_is_in_one_of_two_versions),
      TREE_TEST(tight_is_beyond_nine_tenths),
      TREE_TEST(tight_is_beyond_high),
      TREE_TEST(idle_caches_of_files_do_not_make_it_tight),
      TREE_TEST(pressure_is_asked_of_the_group_then_of_the_machine),
      TREE_TEST(version_1_has_the_pressure_of_version_2),
      TREE_TEST(switched_off_it_reads_nothing),
      TREE_TEST(every_call_can_fail),
      TREE_TEST(files_may_hold_anything),
  };
  return cmocka_run_group_tests_name("container", tests, NULL, NULL);
}
