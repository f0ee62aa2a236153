/* container_limits.c - which limits are found, and where. */
#include "container_tree.h"

/* --- limits ----------------------------------------------------------------------------------- */

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
  put("/sys/fs/memory.max", "1\n");       /* above it */
  put("/sys/fs/cgrou/memory.max", "1\n"); /* part of its name */
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

/* Root may open everything: what stands there for a file that cannot be read is a directory, a pipe
 * that nobody writes to, and a link to itself. */
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

/* --- processors ------------------------------------------------------------------------------- */

static void assert_processors(unsigned processors) {
  errno = 1234;
  memset(&container, 0xee, sizeof container);
  assert_int_equal(container_processors_at(&container, &places), processors);
  assert_int_equal(errno, 1234);
}

static void the_smallest_quota_of_all_levels_counts(void **state) {
  (void)state;
  static const struct {
    const char *outer, *inner;
    unsigned processors;
  } cases[] = {
      {"max 100000\n", "max 100000\n", 0},
      {"200000 100000\n", "max 100000\n", 2},
      {"max 100000\n", "200000 100000\n", 2},
      {"800000 100000\n", "350000 50000\n", 7},
      {"800000 100000\n", "900001 100000\n", 8},
      {"max 100000\n", "100001 100000\n", 2}, /* a part of one is one */
      {"max 100000\n", "1000 100000\n", 1},
      {"max 100000\n", "0 100000\n", 1},
      {"max 100000\n", "200000\n", 0}, /* not understood */
      {"max 100000\n", "200000 0 \n", 0},
      {"max 100000\n", "200000 x\n", 0},
      {"max 100000\n", "", 0},
      {"300000 100000\n", "-1 100000\n", 3},
      {"max 100000\n", "1152921504606846975 1\n", UINT32_MAX},
  };
  tell("0::/outer/inner\n", OTHER_MOUNTS V2_MOUNT);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    put("/sys/fs/cgroup/outer/cpu.max", cases[i].outer);
    put("/sys/fs/cgroup/outer/inner/cpu.max", cases[i].inner);
    assert_processors(cases[i].processors);
  }
  put("/sys/fs/cgroup/outer/cpu.max", "200000 100000\n");
  assert_processors(2);
  SET_OPTION(CONTAINER, 0);
  assert_processors(0);
}

static void quotas_of_version_1(void **state) {
  (void)state;
  tell("4:cpu,cpuacct:/outer/inner\n3:cpuset:/elsewhere\n2:memory:/of/memory\n0::/of/unified\n",
       OTHER_MOUNTS V1_MOUNT UNIFIED_MOUNT
       "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
       "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  assert_processors(0);
  put("/sys/fs/cgroup/unified/of/unified/cpu.max", "100000 100000\n"); /* not where v1 has it */
  put("/sys/fs/cgroup/cpu,cpuacct/outer/cpu.cfs_quota_us", "600000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/outer/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_period_us", "100000\n");
  assert_processors(6);
  put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_quota_us", "250000\n");
  assert_processors(3);
  put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_period_us", "0\n"); /* said as 1: no sense */
  assert_processors(6);
}

static void without_groups_there_is_no_quota(void **state) {
  (void)state;
  assert_processors(0); /* no file at all */
  tell("0::/outer\n", OTHER_MOUNTS);
  put("/sys/fs/cgroup/outer/cpu.max", "100000 100000\n");
  assert_processors(0); /* not mounted */
  tell("0::/outer\n", OTHER_MOUNTS V2_MOUNT);
  assert_processors(1);
  for (unsigned call = 1;; call++) { /* whatever fails: none, or a level less */
    os_fault_reset();
    os_fault_fail_from(call);
    assert_true(container_processors_at(&container, &places) <= 1);
    if (os_fault_injected() == 0) break;
  }
}

/* --- where the group is ----------------------------------------------------------------------- */

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
      V2_MOUNT "31 23 0:28 / relative rw - cgroup2 cgroup2 rw\n",
      V2_MOUNT "31 23 0:28 relative /x rw - cgroup2 cgroup2 rw\n",
      V2_MOUNT "31 23 0:28  /x rw - cgroup2 cgroup2 rw\n",
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

/* --- version 1 -------------------------------------------------------------------------------- */

static void version_1_has_its_own_names(void **state) {
  (void)state;
  tell("4:hugetlb,memory:/outer/g\n5:cpu,cpuacct:/wrong\n9:name=memory:/wrong\n"
       "10:memory_of_old:/wrong\n0::/\n",
       OTHER_MOUNTS "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup none rw,hugetlb,memory\n"
                    "33 31 0:30 / /wrong rw - cgroup cgroup rw,name=memory\n"
                    "33 31 0:30 / /wrong rw - cgroup cgroup rw,cpu\n");
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
  assert_true(container_is_half_used(&container));
  put("/sys/fs/cgroup/memory/outer/memory.stat", "total_inactive_file 45000\n");
  assert_false(container_is_half_used(&container));
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

int main(void) {
  const struct CMUnitTest tests[] = {
      TREE_TEST(the_smallest_limit_of_all_levels_counts),
      TREE_TEST(high_counts_on_its_own),
      TREE_TEST(without_limits_there_are_none),
      TREE_TEST(a_level_without_files_is_passed_over),
      TREE_TEST(numbers_are_understood_or_none),
      TREE_TEST(what_cannot_be_read_is_no_limit),
      TREE_TEST(levels_beyond_the_room_are_left_out),
      TREE_TEST(the_smallest_quota_of_all_levels_counts),
      TREE_TEST(quotas_of_version_1),
      TREE_TEST(without_groups_there_is_no_quota),
      TREE_TEST(mount_points_may_hold_any_byte),
      TREE_TEST(namespaces_and_parts_of_trees),
      TREE_TEST(of_several_mounts_the_one_that_shows_most_is_taken),
      TREE_TEST(lines_that_are_none_are_passed_over),
      TREE_TEST(paths_that_do_not_fit_are_no_limit),
      TREE_TEST(version_1_has_its_own_names),
      TREE_TEST(memory_is_in_one_of_two_versions),
  };
  return cmocka_run_group_tests_name("container limits", tests, NULL, NULL);
}
