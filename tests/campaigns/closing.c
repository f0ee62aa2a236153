/* closing.c - what the system grants closes in while threads allocate in all tiers, opens again, and so on.
 *
 * A call may say no only while something is closed. Each time that all is open again every tier has to work at once; in the end
 * nothing is left (work.h).
 *
 * usage: closing MODE [seconds [threads]]
 *   plain        nothing closes in: for comparison, and what the modes that start the program again go on with
 *   as, data     RLIMIT_AS, RLIMIT_DATA down to below what is in use, step by step
 *   maps         vm.max_map_count: mappings until the kernel refuses one, and some back
 *   group        a control group's limit of memory, step by step to 128 or 256 MiB. CAMPAIGN_GROUP names its directory, the process
 *                moves there; it must not be killed
 *   locked-current, locked-future, locked-onfault       mlockall() of that kind and munlockall()
 *   locked-small the same without the right to lock more than 8 MiB more
 *   filter-late  a filter of system calls in the middle; CAMPAIGN_FILTER: "EPERM madvise mremap"
 *   filter-early the same before the program begins
 *   no-thp       PR_SET_THP_DISABLE before the program begins
 *   no-sys       an empty /sys before the program begins
 *   low          the layout of old kernels, which gives low addresses first
 *   scattered    single holes all over the address space are all that is free
 *   high         the addresses above those that a program has by default: none of ours lie there, and they are told apart */
#include "filter.h"
#include "work.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 8, STEP_MS = 30 };

static uint64_t seconds;
static unsigned threads;
static struct kit_rng rng;
static char **arguments;

__attribute__((noreturn)) static void skip(const char *why) {
  printf("skipped: %s\n", why);
  exit(KIT_SKIP);
}

/* The program once more, in `mode`, with what was set so far. */
__attribute__((noreturn)) static void start_again(const char *mode) {
  char text[32];
  snprintf(text, sizeof text, "%s", mode);
  arguments[1] = text;
  execv("/proc/self/exe", arguments);
  CHECK(false, "exec");
  abort();
}

/* --- what closes in ------------------------------------------------------------------------------ */

/* `step` of STEPS, the last one being the narrowest. */
static void limit_soft(int resource, size_t in_use, int step) {
  struct rlimit limit;
  CHECK(getrlimit(resource, &limit) == 0, "getrlimit");
  size_t room = (size_t)(STEPS - step) * 4 * KIT_MB;
  limit.rlim_cur = step < 0 ? limit.rlim_max : in_use + room - 8 * KIT_MB;
  if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
  CHECK(setrlimit(resource, &limit) == 0, "setrlimit");
}

static void as_close(int step) { limit_soft(RLIMIT_AS, kit_address_space(), step); }
static void as_open(void) { limit_soft(RLIMIT_AS, 0, -1); }
static void data_close(int step) {
  limit_soft(RLIMIT_DATA, kit_status_kb("VmData:") * KIT_KB, step);
}
static void data_open(void) { limit_soft(RLIMIT_DATA, 0, -1); }

enum { MAPPINGS_MOST = 300000 };
static void *mappings[MAPPINGS_MOST];
static size_t mapping_count, mappings_peak;

static void unmap_some(size_t count) {
  for (; count > 0 && mapping_count > 0; count--)
    munmap(mappings[--mapping_count], (size_t)sysconf(_SC_PAGESIZE));
}

/* Single pages until the kernel refuses; neighbours differ, so that it cannot join them. */
static void maps_close(int step) {
  unmap_some(step == 0 ? 0 : 4);
  for (; mapping_count < MAPPINGS_MOST; mapping_count++) {
    void *page =
        mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), mapping_count % 2 ? PROT_READ : PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) break;
    mappings[mapping_count] = page;
  }
  if (mapping_count == MAPPINGS_MOST) skip("the kernel allows more than 300000 mappings");
  if (mapping_count > mappings_peak) mappings_peak = mapping_count;
  work_figure("mappings", mappings_peak);
}
static void maps_open(void) { unmap_some(mapping_count); }

static int lock_flags;
static void lock_close(int step) {
  if (step == 0) CHECK(mlockall(lock_flags) == 0, "mlockall");
}
static void lock_open(void) { CHECK(munlockall() == 0, "munlockall"); }

struct capabilities {
  uint32_t effective, permitted, inheritable;
};
struct capabilities_of {
  uint32_t version;
  int process;
};
enum { CAPABILITY_VERSION = 0x20080522, MAY_LOCK = 1 << 14 };

static struct capabilities_of self = {CAPABILITY_VERSION, 0};

static void lock_prepare(void) {
  struct capabilities sets[2];
  struct rlimit limit;
  CHECK(syscall(SYS_capget, &self, sets) == 0, "capget");
  CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "getrlimit");
  if ((sets[0].effective & MAY_LOCK) == 0 && limit.rlim_cur != RLIM_INFINITY)
    skip("all memory may not be locked here");
}

/* Before any thread starts: capabilities are a thread's. */
static void lock_small_prepare(void) {
  struct capabilities sets[2];
  struct rlimit limit;
  CHECK(syscall(SYS_capget, &self, sets) == 0, "capget");
  sets[0].effective &= ~(uint32_t)MAY_LOCK, sets[0].permitted &= ~(uint32_t)MAY_LOCK;
  CHECK(syscall(SYS_capset, &self, sets) == 0, "capset");
  CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "getrlimit");
  if (limit.rlim_cur < 8 * KIT_MB) skip("RLIMIT_MEMLOCK is less than 8 MiB");
  limit.rlim_cur = 8 * KIT_MB;
  CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit");
}

/* --- a control group ------------------------------------------------------------------------------ */

/* More than these threads use by turns, or the limit would come down only when they happen to use less. With guards that is more, for
 * freed Large blocks are kept with theirs while memory is not short (docs/decisions/0024). */
enum { GROUP_FROM_MB = 512, GROUP_TO_MB = 128, GROUP_TO_GUARDED_MB = 256 };
/* A hang, no promise: beside other work it takes up to ten seconds. */
enum { GROUP_WAIT_MS = 60000 };
static const char *group;
static uint64_t longest_wait_ms;

static bool group_file(const char *name, char *text, size_t room, bool writes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", group, name);
  int file = open(path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t length = writes ? write(file, text, strlen(text)) : read(file, text, room - 1);
  int error = errno;
  close(file);
  errno = error;
  if (!writes && length >= 0) text[length] = 0;
  return length >= 0;
}

static size_t group_usage(void) {
  char text[64];
  bool known = group_file("memory.current", text, sizeof text, false) ||
               group_file("memory.usage_in_bytes", text, sizeof text, false);
  CHECK(known, "the group's use cannot be read");
  return strtoull(text, NULL, 10);
}

/* False: the kernel could not take so much back (version 1 says so, version 2 would kill). */
static bool group_limit(size_t mb) {
  char text[32];
  snprintf(text, sizeof text, "%zu", mb * KIT_MB);
  if (group_file("memory.max", text, sizeof text, true)) return true;
  if (group_file("memory.limit_in_bytes", text, sizeof text, true)) return true;
  CHECK(errno == EBUSY, "no limit can be set in %s", group);
  return false;
}

static void group_prepare(void) {
  char text[32] = "0";
  group = getenv("CAMPAIGN_GROUP");
  if (group == NULL) skip("CAMPAIGN_GROUP names no control group");
  CHECK(group_file("cgroup.procs", text, sizeof text, true), "cannot enter %s", group);
  CHECK(group_limit(GROUP_FROM_MB), "the first limit is refused");
  work_never_purges();
}

/* More is had than the last limit allows, and freed; then the limit comes down. What is free has to go back by itself
 * for that. */
static void group_close(int step) {
  enum { SIZE = 3000, COUNT = 100000 };
  static kit_block blocks[COUNT];
  if (step == 0) {
    for (size_t i = 0; i < COUNT; i++) blocks[i] = work_take(&rng, SIZE);
    for (size_t i = 0; i < COUNT; i++) work_drop(blocks[i]);
  }
  size_t to = getenv("HAKMEM_GUARD") != NULL ? GROUP_TO_GUARDED_MB : GROUP_TO_MB;
  size_t mb = GROUP_FROM_MB - (GROUP_FROM_MB - to) / STEPS * (size_t)(step + 1);
  uint64_t start = work_now_ms(), waited = 0;
  while (group_usage() + 16 * KIT_MB > mb * KIT_MB || !group_limit(mb)) {
    waited = work_now_ms() - start;
    CHECK(waited < GROUP_WAIT_MS, "%zu MB are in use, and do not become %zu",
          group_usage() / KIT_MB, mb);
    usleep(10000);
  }
  if (waited > longest_wait_ms) longest_wait_ms = waited;
  work_figure("limit_mb", mb);
  work_figure("longest_wait_ms", longest_wait_ms);
}
static void group_open(void) { CHECK(group_limit(GROUP_FROM_MB), "no larger limit"); }

/* --- addresses ------------------------------------------------------------------------------------- */

static uintptr_t lowest = UINTPTR_MAX, highest;

static void note_address(const void *memory) {
  lowest = (uintptr_t)memory < lowest ? (uintptr_t)memory : lowest;
  highest = (uintptr_t)memory > highest ? (uintptr_t)memory : highest;
}

static void note_addresses(void) {
  for (int i = 0; i < 200; i++) {
    size_t size = i % 4 == 0 ? 2 * KIT_MB : i % 4 == 1 ? 300 * KIT_KB : 1000;
    void *memory = mem_malloc(size);
    CHECK(memory, "malloc failed");
    note_address(memory);
    mem_free(memory);
  }
  work_figure("lowest_gib", lowest >> 30);
  work_figure("highest_gib", highest >> 30);
}

enum { KEPT = 400 };
static kit_block kept[KEPT];

static void look_at_kept(void) {
  for (size_t i = 0; i < KEPT; i++) kit_block_check(kept[i]);
}

/* All but single holes of 4 to 32 MiB is taken. The kernel gives the highest one first: blocks that are kept fill some. */
static void scatter(void) {
  enum { CHUNKS = 4096, HOLES = 200 };
  static char *chunks[CHUNKS];
  static size_t sizes[CHUNKS];
  size_t count = 0, free_bytes = 0;
  for (size_t size = (size_t)1 << 40; size >= 64 * KIT_MB && count < CHUNKS; size /= 4)
    for (; count < CHUNKS; count++) {
      void *memory =
          mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) break;
      chunks[count] = memory, sizes[count] = size;
    }
  CHECK(count > 0, "no address space");
  for (int i = 0; i < HOLES; i++) {
    size_t chunk = kit_below(&rng, count), bytes = (1 + kit_below(&rng, 8)) * 4 * KIT_MB;
    size_t at = kit_below(&rng, (sizes[chunk] - bytes) / 65536 + 1) * 65536;
    if (munmap(chunks[chunk] + at, bytes) == 0) free_bytes += bytes;
  }
  for (size_t i = 0; i < KEPT; i++) {
    size_t size = i % 2 == 0 ? 1500 * KIT_KB + kit_below(&rng, 2 * KIT_MB) : kit_any_size(&rng);
    kept[i] = kit_block_any(&rng, size);
    CHECK(kept[i], "no block of %zu bytes", size);
    note_address((void *)(kept[i] & ~(uintptr_t)15));
  }
  work_figure("free_mib", free_bytes / KIT_MB);
}

/* A block of another's at a high address must not be taken for one of ours. */
static void free_foreign(void *memory) {
  int status = -1;
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    mem_free(memory);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "free of %p ended with %#x", memory,
        (unsigned)status);
}

#if defined(__aarch64__)
enum { DEFAULT_BITS = 48, MORE_BITS = 52 };
#else
enum { DEFAULT_BITS = 47, MORE_BITS = 57 };
#endif

static int high(void) {
  char *hint = (char *)((uintptr_t)1 << (MORE_BITS - 1)); /* a hint this high is a wish for them */
  char *memory =
      mmap(hint, 16 * KIT_MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "mmap");
  if ((uintptr_t)memory >> DEFAULT_BITS == 0) {
    char why[160];
    snprintf(why, sizeof why, "no addresses above %d bits here (processor or kernel)",
             DEFAULT_BITS);
    skip(why);
  }
  memset(memory, 0x5a, 16 * KIT_MB);
  free_foreign(memory + 4096);
  work_begin(threads, (unsigned)seconds + 120);
  note_addresses();
  sleep((unsigned)seconds);
  work_stop();
  for (size_t i = 0; i < 16 * KIT_MB; i += 4096) CHECK(memory[i] == 0x5a, "written to at %zu", i);
  work_figure("foreign_tib", (uintptr_t)memory >> 40);
  work_end(WORK_ALL_BACK);
  return 0;
}

/* --- modes ---------------------------------------------------------------------------------------- */

static const struct mode {
  const char *name;
  void (*prepare)(void);
  void (*close)(int step);
  void (*open)(void);
  int lock_flags;
  bool never_refuses;
} modes[] = {
    {"plain", NULL, NULL, NULL, 0, true},
    {"as", NULL, as_close, as_open, 0, false},
    {"data", NULL, data_close, data_open, 0, false},
    {"maps", NULL, maps_close, maps_open, 0, false},
    {"group", group_prepare, group_close, group_open, 0, true},
    {"locked-current", lock_prepare, lock_close, lock_open, MCL_CURRENT, true},
    {"locked-future", lock_prepare, lock_close, lock_open, MCL_CURRENT | MCL_FUTURE, true},
    {"locked-onfault", lock_prepare, lock_close, lock_open, MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT,
     true},
    {"locked-small", lock_small_prepare, lock_close, lock_open, MCL_FUTURE | MCL_ONFAULT, false},
    {"scattered", scatter, NULL, look_at_kept, 0, true},
};

static void round_of(const struct mode *mode) {
  for (int step = 0; mode->close != NULL && step < STEPS; step++) {
    if (!mode->never_refuses) work_press();
    mode->close(step);
    work_turns(&rng, 200);
    usleep(STEP_MS * 1000);
  }
  if (mode->open != NULL) mode->open();
  work_relax();
  work_every_tier(&rng);
  if (mode->close == NULL) work_turns(&rng, threads > 0 ? 200 : 20000);
  usleep(STEP_MS * 1000);
}

static void *nothing(void *unused) { return unused; }

static int run(const struct mode *mode) {
  lock_flags = mode->lock_flags;
  if (mode->prepare != NULL) mode->prepare();
  pthread_t id;
  if (pthread_create(&id, NULL, nothing, NULL) == 0) {
    pthread_join(id, NULL);
  } else {
    CHECK(getenv("CAMPAIGN_FILTER") != NULL, "no thread can be started");
    threads = 0; /* the filter refuses them */
  }
  work_figure("threads", threads);
  work_begin(threads, (unsigned)seconds + 120);
  uint64_t end = work_now_ms() + seconds * 1000, rounds = 0;
  do round_of(mode), rounds++;
  while (work_now_ms() < end);
  if (mode->close == NULL && getenv("CAMPAIGN_FILTER") == NULL) note_addresses();
  work_figure("rounds", rounds);
  if (getenv("CAMPAIGN_NO_THP") != NULL) {
    char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *huge = strstr(text, "AnonHugePages:");
    CHECK(huge != NULL && strtoull(huge + 14, NULL, 10) == 0, "there are huge pages");
  }
  /* To lock what comes touches it: tables of the library as well, which stay. */
  bool touched = lock_flags != 0 && (lock_flags & MCL_ONFAULT) == 0;
  bool may_stay = touched || getenv("CAMPAIGN_FILTER") != NULL;
  work_end(may_stay ? WORK_PAGES_MAY_STAY : WORK_ALL_BACK);
  return 0;
}

static int filter_late(void) {
  struct filter filter;
  filter_read(&filter);
  work_begin(threads, (unsigned)seconds + 120);
  usleep((unsigned)seconds * 500000);
  if (!filter_install(&filter)) skip("no filters of system calls here");
  for (int i = 0; i < 20; i++) work_every_tier(&rng);
  usleep((unsigned)seconds * 500000);
  work_stop();
  work_end(WORK_PAGES_MAY_STAY);
  return 0;
}

static void filter_early(void) {
  struct filter filter;
  filter_read(&filter);
  if (!filter_install(&filter)) skip("no filters of system calls here");
  start_again("plain");
}

static void without_huge_pages(void) {
  if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) skip("huge pages cannot be turned off here");
  setenv("CAMPAIGN_NO_THP", "1", 1);
  start_again("plain");
}

static void without_sys(void) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", "/sys", "tmpfs", MS_RDONLY, NULL) != 0)
    skip("/sys cannot be hidden here");
  start_again("plain");
}

static void low(void) {
  int now = personality(0xffffffff);
  if (now < 0 || personality((unsigned long)now | ADDR_COMPAT_LAYOUT) < 0)
    skip("no other layout of addresses here");
  start_again("plain");
}

int main(int argc, char **argv) {
  kit_start();
  const char *name = argc > 1 ? argv[1] : "";
  arguments = argv;
  seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 2;
  threads = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 3;
  rng = kit_rng_make(77);
  if (strcmp(name, "high") == 0) return high();
  if (strcmp(name, "filter-late") == 0) return filter_late();
  if (strcmp(name, "filter-early") == 0) filter_early();
  if (strcmp(name, "no-thp") == 0) without_huge_pages();
  if (strcmp(name, "no-sys") == 0) without_sys();
  if (strcmp(name, "low") == 0) low();
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (strcmp(name, modes[i].name) == 0) return run(&modes[i]);
  CHECK(false, "usage: closing MODE [seconds [threads]]");
  return 2;
}
