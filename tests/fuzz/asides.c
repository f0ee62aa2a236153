/* asides.c - the actions that are not about one block: giving back, statistics, failures, fork. */
#include "actions.h"

#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- statistics ------------------------------------------------------------------------------------------ */

/* A caller built with an older header has a shorter structure: what lies behind it stays as it is. */
static void short_structure(int (*get)(void *stats), size_t size, const char *name) {
  union {
    uint32_t size;
    unsigned char bytes[512];
  } stats;
  memset(&stats, 0xa5, sizeof stats);
  stats.size = (uint32_t)size;
  int error = get(&stats);
  if (error != 0 && error != EINVAL) fuzz_fail("%s gave %d", name, error);
  for (size_t i = size > sizeof stats.size ? size : sizeof stats.size; i < sizeof stats; i++)
    if (stats.bytes[i] != 0xa5) fuzz_fail("%s wrote at %zu of %zu bytes", name, i, size);
}

static int any_stats(void *stats) { return run.calls->stats_get(stats); }
static int any_memory_stats(void *stats) { return run.calls->memory_stats_get(stats); }

static void check_memory(void) {
  struct hak_memory_stats stats = {.size = sizeof stats};
  /* While other threads run, the parts are of different moments. */
  size_t live = model_live_bytes();
  if (run.calls->memory_stats_get(&stats) != 0) fuzz_fail("hak_memory_stats_get failed");
  fuzz_say("  %zu bytes live; hakmem says %zu", live, (size_t)stats.live);
  if (!run.header.at_once && stats.live < live)
    fuzz_fail("hak_memory_stats_get: %zu bytes live, but the program has %zu", (size_t)stats.live,
              live);
}

static void check_classes(void) {
  struct hak_class_stats stats;
  unsigned number = 0;
  do {
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
  } while (run.calls->class_stats_get(number, &stats) == 0 && ++number < 1000);
  if (number < 3 || number == 1000) fuzz_fail("hak_class_stats_get knows %u classes", number);
}

static void do_statistics(unsigned number) {
  if (run.calls->stats_get == NULL) return;
  switch (number % 4) {
  case 0:
    short_structure(any_stats, number / 4 * 4, "hak_stats_get");
    break;
  case 1:
    short_structure(any_memory_stats, number / 4 * 4, "hak_memory_stats_get");
    break;
  case 2:
    check_classes();
    break;
  default:
    check_memory();
  }
}

static void do_mallinfo(void) {
  struct mallinfo2 info = run.calls->mallinfo2();
  if (!run.header.at_once && info.uordblks + info.hblkhd < model_live_bytes())
    fuzz_fail("mallinfo2: %zu and %zu bytes in use, but the program has %zu", info.uordblks,
              info.hblkhd, model_live_bytes());
}

static void do_malloc_info(unsigned number) {
  int options = number % 4 == 3 ? (int)number : 0;
  int result = run.calls->malloc_info(options, run.sink);
  if (result != (options == 0 ? 0 : -1)) fuzz_fail("malloc_info(%d) gave %d", options, result);
}

/* Its lines go nowhere: they would be all that is to be seen of a run. */
static void do_malloc_stats(void) {
  int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (kept < 0 || nowhere < 0) fuzz_fail("no descriptor");
  dup2(nowhere, STDERR_FILENO);
  run.calls->malloc_stats();
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(nowhere);
}

/* --- fork ------------------------------------------------------------------------------------------------------ */

/* Every block of the model is whole here, as they were in the parent. Some are freed, others allocated. */
__attribute__((noreturn)) static void child(const struct action *action) {
  alarm(20);
  model_check_all("in a forked child");
  unsigned step = 1 + action->number % 16;
  struct action each = {.family = action->family};
  for (unsigned slot = action->slot; slot < SLOTS; slot += step) {
    each.kind = slot / step % 2 ? ACTION_FREE : ACTION_FREE_SIZED;
    each.slot = slot;
    action_do(&each);
  }
  for (unsigned i = 0; i < 40; i++) {
    each.kind = i % 3 == 0 ? ACTION_CALLOC : ACTION_MALLOC;
    each.slot = i * step % SLOTS;
    each.size = (size_t)16 << (i * action->number + i) % 15;
    each.number = 1;
    action_do(&each);
  }
  if (run.calls->purge != NULL) run.calls->purge();
  model_check_all("in a forked child, later");
  _exit(0);
}

/* Has this process pages of the kernel's reserved pool? A child of a fork shares them, and SIGBUS ends it where it writes to one and
 * the pool is empty: HAKMEM_SS_HUGEPAGE in hakmem(5). */
static bool has_reserved_pages(void) {
  char text[8192];
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  if (file >= 0) close(file);
  text[length > 0 ? length : 0] = 0;
  const char *line = strstr(text, "HugetlbPages:");
  return line != NULL && strtoull(line + strlen("HugetlbPages:"), NULL, 10) > 0;
}

static void do_fork(const struct action *action) {
  model_lock(); /* in the child it is this thread's as well */
  if (run.forks >= 2) {
    model_unlock();
    return;
  }
  run.forks++;
  pid_t process = fork();
  model_unlock();
  if (process < 0) fuzz_fail("fork failed: %s", strerror(errno));
  if (process == 0) child(action);
  int status;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) fuzz_fail("waitpid failed: %s", strerror(errno));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS && has_reserved_pages()) return;
  if (status != 0) fuzz_fail("a forked child ended with status 0x%x", status);
}

/* --- the rest -------------------------------------------------------------------------------------------------- */

/* So that memory is old enough to be given back, at the shortest age that can be set. */
static void do_wait(unsigned number) {
  if (__atomic_fetch_add(&run.waits, 1, __ATOMIC_RELAXED) < 4) usleep(number * 8);
}

void aside_do(const struct action *action) {
  switch (action->kind) {
  case ACTION_PURGE:
    if (run.calls->purge != NULL) run.calls->purge();
    break;
  case ACTION_TRIM: {
    int result = run.calls->malloc_trim(action->number);
    if (result != 0 && result != 1) fuzz_fail("malloc_trim gave %d", result);
    break;
  }
  case ACTION_STATISTICS:
    do_statistics(action->number);
    break;
  case ACTION_MALLINFO:
    do_mallinfo();
    break;
  case ACTION_MALLOC_INFO:
    do_malloc_info(action->number);
    break;
  case ACTION_MALLOC_STATS:
    do_malloc_stats();
    break;
  case ACTION_MALLOPT: {
    int result = run.calls->mallopt((int)(action->number % 16) - 10, (int)action->number * 999);
    if (result != 0 && result != 1) fuzz_fail("mallopt gave %d", result);
    break;
  }
  case ACTION_FAIL:
    plan_failures((enum plan_kind)(action->number % 5), action->number / 5);
    break;
  case ACTION_FORK:
    do_fork(action);
    break;
  case ACTION_WAIT:
    do_wait(action->number);
    break;
  case ACTION_CHECK:
    model_check_all("on the way");
    break;
  default:
    break;
  }
}
