/* thread.c - the one thread that the library may start, when it may, and what it sleeps on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/call.h"
#include "os/fault.h"
#include "os/file.h"
#include "os/futex.h"
#include "os/os.h"
#include "os/text.h"

/* --- may a thread be started? -------------------------------------------------------------------------- */

#if defined(__GLIBC__)
/* glibc's own mark, since 2.32: true until the first thread is started. Reading it costs nothing. */
extern char __libc_single_threaded __attribute__((weak));

bool os_has_one_thread_for_sure(void) {
  return &__libc_single_threaded != NULL && __libc_single_threaded != 0;
}
#else
bool os_has_one_thread_for_sure(void) { return false; }
#endif

/* The number behind a name at the start of a line; `otherwise` if it is not there. */
static unsigned long number_behind(const char *text, const char *name, unsigned long otherwise) {
  size_t length = text_length(name);
  const char *at = text;
  /* Not by strstr: musl's has a table of 2 KiB on the stack, as much as a thread may have in all. */
  while (*at != 0 && !text_begins(at, name, length)) at++;
  if (*at == 0) return otherwise;
  unsigned long number = 0;
  for (at += length; *at == ' ' || *at == '\t'; at++) continue;
  for (; *at >= '0' && *at <= '9'; at++) number = number * 10 + (unsigned long)(*at - '0');
  return number;
}

/* The kernel is asked by a file. prctl(PR_GET_SECCOMP) would be one call, and needs no descriptor, but a filter that does
 * not list it kills, and filters that kill by default rarely list it; prctl(2) names this file as the way without that
 * risk. To open files is allowed nearly everywhere, or refused by an error number, which is an answer as well. */
enum os_welcome os_thread_is_welcome(void) {
  /* Longer than a name and its number, which may be cut in two by the end of the buffer; more than there is. */
  enum { KEPT = 32, READS_MOST = 1024 };
  static char text[2 * KIB]; /* one caller at a time: who may start the helper, or the helper */
  const unsigned long not_told = ULONG_MAX;
  unsigned long threads = 0, filter = not_told;
  int file = os_file_open("/proc/thread-self/status", OS_FILE_READ);
  if (file < 0) return OS_THREAD_NOT_NOW;
  text[0] = '\n';
  size_t kept = 1;
  ptrdiff_t length;
  for (int i = 0; i < READS_MOST; i++) {
    length = os_file_read(file, text + kept, sizeof text - 1 - kept);
    if (length <= 0) break;
    size_t end = kept + (size_t)length;
    text[end] = 0;
    threads = number_behind(text, "\nThreads:", threads);
    filter = number_behind(text, "\nSeccomp:", filter);
    kept = end < KEPT ? end : KEPT;
    memmove(text, text + end - kept, kept);
  }
  os_file_close(file);
  if (filter != 0) return filter == not_told ? OS_THREAD_NOT_NOW : OS_THREAD_NEVER;
  return threads >= 2 ? OS_THREAD_WELCOME : OS_THREAD_NOT_NOW;
}

/* A directory has a link for each one in it, and two of its own. One call, and no descriptor. */
unsigned long os_process_threads(void) {
  enum { OWN_LINKS = 2 };
  static const char path[] = "/proc/self/task";
  struct stat tasks = {0};
  bool known = os_file_status(AT_FDCWD, path, &tasks, 0);
  return known && tasks.st_nlink > OWN_LINKS ? tasks.st_nlink - OWN_LINKS : 0;
}

/* --- what it runs as ----------------------------------------------------------------------------------- */

/* All calls are made past libc, whose wrappers programs replace, and whatever is refused stays as it was. */

enum { PROCESSORS_MOST = 8192 }; /* the kernel's most */

unsigned os_processors(void) {
  unsigned long set[PROCESSORS_MOST / 8 / sizeof(unsigned long)] = {0};
  long bytes = OS_CALL(SYS_sched_getaffinity, 0, sizeof set, set);
  unsigned count = 0;
  for (size_t i = 0; bytes > 0 && i < (size_t)bytes / sizeof set[0]; i++)
    count += (unsigned)__builtin_popcountl(set[i]);
  return count > 0 ? count : 1;
}

/* Not those of the thread that happened to free: it may be a real-time thread, or pinned to one processor. */
static void schedule_as_process(long process) {
  static const struct sched_param none;
  unsigned long processors[PROCESSORS_MOST / 8 / sizeof(unsigned long)];
  OS_CALL(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
  long nice = OS_CALL(SYS_getpriority, PRIO_PROCESS, process); /* 20 - nice */
  if (nice > 0) OS_CALL(SYS_setpriority, PRIO_PROCESS, 0, 20 - nice);
  long bytes = OS_CALL(SYS_sched_getaffinity, process, sizeof processors, processors);
  if (bytes > 0) OS_CALL(SYS_sched_setaffinity, 0, bytes, processors);
}

/* As in <linux/capability.h>, which musl-gcc does not have. */
struct capability_header {
  uint32_t version;
  int process;
};
struct capability_set {
  uint32_t effective, permitted, inheritable;
};
enum { CAPABILITY_SETS = 2, CAPABILITY_SETGID = 6, CAPABILITY_SETUID = 7 };
#define CAPABILITY_VERSION 0x20080522

/* libc changes the user and group of a process in each thread, and ends it by abort() (musl: SIGKILL) if some may and
 * others may not. So the thread keeps the two capabilities that decide this, for as long as the main thread has
 * them. It uses none. */
static const uint32_t kept_capabilities = 1U << CAPABILITY_SETUID | 1U << CAPABILITY_SETGID;

/* Whether it holds any. The helper's alone. */
static bool is_capable;

static void drop_capabilities(long process) {
  struct capability_header header = {CAPABILITY_VERSION, (int)process},
                           own = {CAPABILITY_VERSION, 0};
  struct capability_set main[CAPABILITY_SETS] = {{0}}, mine[CAPABILITY_SETS] = {{0}},
                        left[CAPABILITY_SETS] = {{0}};
  if (OS_CALL(SYS_capget, &header, main) != 0) return;
  if (OS_CALL(SYS_capget, &own, mine) != 0) return;
  left[0].effective = mine[0].effective & main[0].effective & kept_capabilities;
  left[0].permitted = mine[0].permitted & main[0].permitted & kept_capabilities;
  bool done = memcmp(left, mine, sizeof left) == 0 || OS_CALL(SYS_capset, &own, left) == 0;
  is_capable = !done || left[0].permitted != 0;
}

/* A thread without capabilities gets none any more. One under a filter that came after it keeps what it has: the filter may kill for both
 * calls. */
void os_thread_follow_process(void) {
  if (!is_capable) return;
  if (os_thread_is_welcome() == OS_THREAD_NEVER) is_capable = false;
  else drop_capabilities((long)os_process());
}

/* --- starting it --------------------------------------------------------------------------------------- */

/* Enough for the purger and a large static TLS; only what is used takes memory. */
#define STACK_BYTES (256 * KIB)

static void *thread_main(void *body) {
  enum { SET_NAME = 15 }; /* PR_SET_NAME */
  OS_CALL(SYS_prctl, SET_NAME, "hakmem");
  schedule_as_process((long)os_process());
  is_capable = true;
  drop_capabilities((long)os_process());
  (*(void (**)(void))body)();
  return NULL;
}

/* Signals are blocked for this alone: the new thread inherits that, so that no signal is for it. */
static int create(const pthread_attr_t *attributes, void (**body)(void)) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, attributes, thread_main, (void *)body);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

bool os_thread_start(void (*body)(void)) {
  static void (*running)(void); /* one thread at a time */
  if (os_fault_now()) return false;
  int saved = errno;
  pthread_attr_t attributes;
  running = body;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  int error = create(&attributes, &running);
  if (error == EINVAL) { /* the static TLS needs more */
    pthread_attr_setstacksize(&attributes, 8 * MIB);
    error = create(&attributes, &running);
  }
  pthread_attr_destroy(&attributes);
  errno = saved;
  return error == 0;
}

HAK_AT_LOAD int os_process(void) { return (int)OS_CALL(SYS_getpid); }

int os_thread(void) { return (int)OS_CALL(SYS_gettid); }

/* One that the kernel does not let us ask for is taken for gone: somebody waits for that. */
bool os_thread_exists(int thread) { return OS_CALL(SYS_tgkill, os_process(), thread, 0) == 0; }

/* linux/membarrier.h, which not every toolchain has; since Linux 4.14. */
enum { FENCE_RUNNING = 1 << 3, FENCE_ALLOW = 1 << 4 };

static atomic_bool fence_refused; /* relaxed: a hint */

bool os_fences_threads(void) { return !atomic_load_explicit(&fence_refused, memory_order_relaxed); }

/* Interrupts each processor on which a thread of the process runs, some us; a thread that does not run passes a barrier when it is switched
 * to. The process has to announce once that it wants that. */
bool os_fence_threads(void) {
  if (os_fault_now()) return false;
  long error = OS_CALL(SYS_membarrier, FENCE_RUNNING, 0, 0);
  if (error == -EPERM && OS_CALL(SYS_membarrier, FENCE_ALLOW, 0, 0) == 0)
    error = OS_CALL(SYS_membarrier, FENCE_RUNNING, 0, 0);
  if (error != 0) atomic_store_explicit(&fence_refused, true, memory_order_relaxed);
  return error == 0;
}

void os_yield(void) { (void)OS_CALL(SYS_sched_yield); }

void os_sleep_on(_Atomic uint32_t *word, uint32_t value, uint32_t ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  futex_wait(word, value, ms == OS_NO_TIMEOUT ? NULL : &time);
}

void os_wake(_Atomic uint32_t *word) { futex_wake(word, 1); }
