/* Runs each scenario once to count its system calls, then once for every n with the n-th call
 * refused, once for every n with all calls from the n-th on refused, and with calls refused at
 * random. Each run is a process of its own, so that the library's first steps are among them.
 *
 * usage: each_call nth|from|random [scenario]         all runs; -scenario: of all scenarios but this one
 *        each_call nth|from <scenario> <n>            one run, in this process: for a debugger
 *        each_call random <scenario> <seed> <permille> */
#include "scenarios.h"

#include "os/fault.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum mode { COUNT, NTH, FROM, RANDOM };
static const char *const mode_names[] = {"count", "nth", "from", "random"};

/* What a run tells its parent. */
struct result {
  uint64_t calls, injected, refused;
};
static struct result *shared;

static void run(const struct scenario *scenario, enum mode mode, uint64_t n, uint32_t permille) {
  struct world *world = world_make(n);
  if (KIT_ASAN && mode != FROM) hak_free(hak_malloc(1));
  os_fault_reset();
  if (mode == NTH) os_fault_fail_nth(n);
  else if (mode == FROM) os_fault_fail_from(n);
  else if (mode == RANDOM) os_fault_random((uint32_t)n, permille);
  scenario->run(world);
  world_check(world);
  *shared = (struct result){os_fault_calls(), os_fault_injected(), world->refused};
  CHECK(mode != COUNT || world->refused == 0, "a call failed without a fault");
  os_fault_reset();
  world->damaged_since = 0;
  /* Half of the runs free everything while calls are still refused. */
  if (mode == FROM && n % 2 == 0) {
    os_fault_fail_from(1);
    world_free_all(world);
    os_fault_reset();
    world->damaged_since = 0;
  }
  world_recover(world);
}

static struct result in_child(const struct scenario *scenario, enum mode mode, uint64_t n,
                              uint32_t permille) {
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    kit_watchdog(120);
    run(scenario, mode, n, permille);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  CHECK(status == 0, "to see it: each_call %s %s %lu %u   (ended by signal %d, exit status %d)",
        mode_names[mode], scenario->name, (unsigned long)n, permille, WTERMSIG(status),
        WEXITSTATUS(status));
  return *shared;
}

static void all_runs(const struct scenario *scenario, enum mode mode) {
  if (KIT_ASAN && strncmp(scenario->name, "first-", 6) == 0) {
    /* When the large address map is refused and the small one is not, blocks lie below 256 GiB,
     * and ASan has taken all of that for itself. So there the library is up before the faults. */
    printf("%s %s: left out under ASan, which takes the low addresses\n", mode_names[mode],
           scenario->name);
    return;
  }
  uint64_t calls = in_child(scenario, COUNT, 0, 0).calls;
  if (mode == RANDOM && calls < 10) return; /* the other modes have tried all there is */
  uint64_t runs = 0, injected = 0, refused = 0;
  if (mode == RANDOM) {
    static const uint32_t permilles[] = {10, 50, 200, 500};
    for (uint64_t seed = 1; seed <= kit_rounds(6); ++seed)
      for (size_t i = 0; i < sizeof permilles / sizeof *permilles; ++i, ++runs) {
        struct result result = in_child(scenario, RANDOM, seed, permilles[i]);
        injected += result.injected;
        refused += result.refused;
      }
  } else {
    /* The first calls one by one; where a scenario makes very many, every few of the rest, unless HAK_TEST_EVERY is set. */
    uint64_t step = getenv("HAK_TEST_EVERY") ? 1 : 1 + calls / (KIT_SANITIZED ? 20 : 40);
    for (uint64_t n = 1; n <= calls; n += n < 20 ? 1 : step, ++runs) {
      struct result result = in_child(scenario, mode, n, 0);
      CHECK(result.injected > 0 || n > 1, "no call was refused");
      injected += result.injected;
      refused += result.refused;
    }
  }
  printf("%s %s: %lu system calls; %lu runs, %lu calls refused, %lu functions said ENOMEM\n",
         mode_names[mode], scenario->name, (unsigned long)calls, (unsigned long)runs,
         (unsigned long)injected, (unsigned long)refused);
  CHECK(calls > 0, "the scenario makes no system call at all");
}

static bool is_wanted(const char *word, const char *scenario) {
  return word[0] == '-' ? strcmp(word + 1, scenario) != 0 : strcmp(word, scenario) == 0;
}

int main(int argc, char **argv) {
  kit_start();
  /* Otherwise runs forked from here would miss what happens before main. */
  CHECK(os_fault_calls() == 0, "the library makes system calls before main");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED, "mmap");
  enum mode mode = NTH;
  if (argc > 1) {
    mode = COUNT;
    while (mode <= RANDOM && strcmp(mode_names[mode], argv[1]) != 0) ++mode;
    CHECK(mode <= RANDOM, "nth, from or random expected, not %s", argv[1]);
  }
  size_t found = 0;
  for (const struct scenario *scenario = scenarios; scenario->name; ++scenario) {
    if (argc > 2 && !is_wanted(argv[2], scenario->name)) continue;
    ++found;
    if (argc > 3)
      run(scenario, mode, strtoull(argv[3], NULL, 10),
          argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0);
    else all_runs(scenario, mode);
  }
  CHECK(found, "no scenario of that name");
  return 0;
}
