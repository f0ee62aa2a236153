/* process.c - see process.h.
 *
 * Why a process for each input: the library reads its options once, at its first call. Everything that is kept from one call to
 * the next is new as well, so an input that finds something finds it again, alone; the first calls of a process are among those
 * that meet failures; and a crash ends nothing but that input. Where the library is linked in, the parent never calls it and a
 * fork is such a start. A preloaded one has started before main: there the child executes the program again.
 */
#include "process.h"

#include "actions.h"
#include "model.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void (*process_at_end)(void);

enum { SECONDS = 60 }; /* of one input; the slowest take less than one */

/* As in a process that nobody has prepared: libFuzzer's handlers would report the parent's input. */
static void plain_signals(unsigned seconds) {
  static const int signals[] = {SIGABRT, SIGALRM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  alarm(seconds);
}

/* In a file without a name, whose descriptor all children have, also a program that is executed: CALLS_NAME tells it which. */
static atomic_ulong *calls;
static int calls_descriptor = -1;
#define CALLS_NAME "FUZZ_CALLS_DESCRIPTOR"

unsigned long process_calls(void) { return calls != NULL ? atomic_load(calls) : 0; }

static void map_calls(int descriptor) {
  void *shared = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (shared == MAP_FAILED) fuzz_fail("no memory to count in");
  calls = shared;
}

static void start_to_count(void) {
  if (calls != NULL) return;
  calls_descriptor = memfd_create("calls", 0);
  if (calls_descriptor < 0 || ftruncate(calls_descriptor, sizeof *calls) != 0)
    fuzz_fail("nothing to count in: %s", strerror(errno));
  map_calls(calls_descriptor);
}

void process_count(void) {
  const char *descriptor = getenv(CALLS_NAME);
  if (calls == NULL && descriptor != NULL) map_calls(atoi(descriptor));
  if (calls != NULL) atomic_fetch_add(calls, atomic_load(&run.done));
}

__attribute__((noreturn)) static void child(const struct header *options, const struct work *work) {
  plain_signals(work->seconds);
  options_set(options);
  if (run.calls->starts_late) {
    work->here(work->argument);
    process_count();
    if (process_at_end != NULL) process_at_end();
    _exit(0);
  }
  char text[16];
  snprintf(text, sizeof text, "%d", calls_descriptor);
  setenv(CALLS_NAME, text, 1);
  execv("/proc/self/exe", work->again);
  fuzz_fail("cannot start %s: %s", work->again[0], strerror(errno));
}

bool process_do(const struct header *options, const struct work *work) {
  start_to_count();
  fflush(NULL);
  pid_t process = fork();
  if (process < 0) fuzz_fail("fork failed: %s", strerror(errno));
  if (process == 0) child(options, work);
  int status;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) fuzz_fail("waitpid failed: %s", strerror(errno));
  if (status == 0) return true;
  if (WIFSIGNALED(status))
    fprintf(stderr, "FINDING: ended by signal %d (%s)\n", WTERMSIG(status),
            strsignal(WTERMSIG(status)));
  else fprintf(stderr, "FINDING: ended with exit status %d\n", WEXITSTATUS(status));
  return false;
}

/* --- one input ---------------------------------------------------------------------------------------------- */

struct bytes {
  const uint8_t *start;
  size_t length;
};

static void run_bytes(void *argument) {
  const struct bytes *bytes = argument;
  actions_run(bytes->start, bytes->length);
}

bool process_run(const uint8_t *start, size_t length, const char *self) {
  struct input input = {start, length};
  struct header header = input_header(&input);
  struct bytes bytes = {start, length};
  char text[16] = "";
  int descriptor = -1;
  if (!run.calls->starts_late) {
    descriptor = memfd_create("input", 0);
    if (descriptor < 0 || write(descriptor, start, length) != (ssize_t)length)
      fuzz_fail("cannot pass the input on: %s", strerror(errno));
    snprintf(text, sizeof text, "%d", descriptor);
  }
  const char *again[] = {self, fuzz_verbose ? "--print" : "--quiet", "--descriptor", text, NULL};
  bool fine = process_do(&header, &(struct work){run_bytes, &bytes, SECONDS, (char *const *)again});
  if (descriptor >= 0) close(descriptor);
  return fine;
}

int process_run_here(int descriptor) {
  static uint8_t bytes[1 << 16];
  ssize_t length = pread(descriptor, bytes, sizeof bytes, 0);
  if (length < 0) fuzz_fail("cannot read the input: %s", strerror(errno));
  close(descriptor);
  actions_run(bytes, (size_t)length);
  process_count();
  return 0;
}
