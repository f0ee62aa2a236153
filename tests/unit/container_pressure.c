/* container_pressure.c - what limits and pressure lead to, with the option off, and when calls fail. */
#include "container_tree.h"

#include "os/file.h"

/* --- tight ------------------------------------------------------------------------------------ */

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

static void assert_room(uint64_t coming, uint64_t tight, uint64_t limit) {
  struct container_room room = container_room(&container, coming);
  assert_true(room.tight == tight && room.limit == limit);
}

static void room_is_what_the_fullest_level_has_left(void **state) {
  (void)state;
  plant_two_levels();
  put("/sys/fs/cgroup/outer/memory.max", "300000\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "100000\n");
  read_tree();
  put("/sys/fs/cgroup/outer/inner/memory.current", "80000\n");
  assert_room(0, 10000, 20000);
  assert_room(4000, 6000, 16000);
  assert_room(50000, 0, 0);
  put("/sys/fs/cgroup/outer/memory.current", "265000\n");
  assert_room(0, 5000, 20000);
  /* Idle caches of files count once it would be tight with them. */
  put("/sys/fs/cgroup/outer/memory.stat", "inactive_file 10000\n");
  assert_room(6000, 4000, 14000);
  put("/sys/fs/cgroup/outer/memory.current", "garbage\n");
  put("/sys/fs/cgroup/outer/inner/memory.current", "garbage\n");
  assert_room(0, UINT64_MAX, UINT64_MAX);
  put("/sys/fs/cgroup/outer/memory.max", "max\n");
  put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  read_tree();
  assert_room(0, UINT64_MAX, UINT64_MAX);
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

/* --- pressure --------------------------------------------------------------------------------- */

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

/* --- off, and failing ------------------------------------------------------------------------- */

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

/* Bytes of good files changed at random: whatever comes out, nothing outside of the tree is opened
 * and nothing breaks (under the sanitizers: nor is anything read out of bounds). */
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
  const struct CMUnitTest tests[] = {
      TREE_TEST(tight_is_beyond_nine_tenths),
      TREE_TEST(room_is_what_the_fullest_level_has_left),
      TREE_TEST(tight_is_beyond_high),
      TREE_TEST(idle_caches_of_files_do_not_make_it_tight),
      TREE_TEST(pressure_is_asked_of_the_group_then_of_the_machine),
      TREE_TEST(version_1_has_the_pressure_of_version_2),
      TREE_TEST(switched_off_it_reads_nothing),
      TREE_TEST(every_call_can_fail),
      TREE_TEST(files_may_hold_anything),
  };
  return cmocka_run_group_tests_name("container pressure", tests, NULL, NULL);
}
