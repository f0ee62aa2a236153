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

enum { SECONDS = 60 }; /* of an input that hangs; the slowest take less than one */

/* As in a process that nobody has prepared: libFuzzer's handlers would report the parent's input. */
static void plain_signals(void) {
  static const int signals[] = {SIGABRT, SIGALRM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  alarm(SECONDS);
}

/* Shared with all children. */
static atomic_ulong *calls;

unsigned long process_calls(void) { return calls != NULL ? atomic_load(calls) : 0; }

static void count_calls(unsigned long done) {
  if (calls != NULL) atomic_fetch_add(calls, done);
}

static void child(const uint8_t *bytes, size_t length, const char *self) {
  plain_signals();
  struct input input = {bytes, length};
  struct header header = input_header(&input);
  if (run.calls->starts_late) {
    options_set(&header);
    actions_run(bytes, length);
    count_calls(atomic_load(&run.done));
    if (process_at_end != NULL) process_at_end();
    _exit(0);
  }
  int descriptor = memfd_create("input", 0);
  if (descriptor < 0 || write(descriptor, bytes, length) != (ssize_t)length)
    fuzz_fail("cannot pass the input on: %s", strerror(errno));
  options_set(&header);
  char text[16];
  snprintf(text, sizeof text, "%d", descriptor);
  execl("/proc/self/exe", self, fuzz_verbose ? "--print" : "--quiet", "--descriptor", text, NULL);
  fuzz_fail("cannot start %s: %s", self, strerror(errno));
}

bool process_run(const uint8_t *bytes, size_t length, const char *self) {
  if (calls == NULL) {
    void *shared =
        mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fuzz_fail("no memory to count in");
    calls = shared;
  }
  fflush(NULL);
  pid_t process = fork();
  if (process < 0) fuzz_fail("fork failed: %s", strerror(errno));
  if (process == 0) child(bytes, length, self);
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

int process_run_here(int descriptor) {
  static uint8_t bytes[1 << 16];
  ssize_t length = pread(descriptor, bytes, sizeof bytes, 0);
  if (length < 0) fuzz_fail("cannot read the input: %s", strerror(errno));
  close(descriptor);
  actions_run(bytes, (size_t)length);
  return 0;
}
