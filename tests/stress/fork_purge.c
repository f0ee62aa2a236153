/* A fork beside a thread that has what libc's fork waits for, the list of streams, and purges: so it waits for the lock of the forking
 * thread's heap, which is kept for the fork. The thread gets it after a second, and the child goes on without that heap.
 *
 * usage: fork_purge trim|refused */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first fits below the limit, the second does not beside it. */
#define LIMIT (1000 * KIT_MB)
#define FIRST (300 * KIT_MB)
#define SECOND (900 * KIT_MB)

static atomic_bool in_write;
static bool trims;

/* By fflush(NULL), which has the list of streams. */
static ssize_t write_to(void *cookie, const char *text, size_t bytes) {
  (void)cookie;
  (void)text;
  atomic_store(&in_write, true);
  usleep(200000); /* the fork comes meanwhile, and waits for the list */
  if (trims) kit_purge();
  else CHECK(mem_malloc(SECOND) == NULL, "the limit did not refuse it");
  return (ssize_t)bytes;
}

static void *flush(void *argument) {
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_to});
  CHECK(stream != NULL && fputs("text", stream) >= 0, "cannot write to a stream");
  fflush(NULL);
  fclose(stream);
  return argument;
}

static int in_child(void) {
  kit_watchdog(20);
  for (int i = 0; i < 1000; i++) {
    void *block = mem_malloc(100);
    if (block == NULL) return 1;
    memset(block, 1, 100);
    mem_free(block);
  }
  return 0;
}

int main(int argc, char **argv) {
  trims = argc > 1 && strcmp(argv[1], "trim") == 0;
  kit_start();
  kit_watchdog(60);
  void *first = NULL;
  if (!trims) {
    struct rlimit limit = {LIMIT, LIMIT};
    CHECK((first = mem_malloc(FIRST)) != NULL, "malloc failed");
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  }
  mem_free(mem_malloc(100));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, flush, NULL) == 0, "cannot create a thread");
  while (!atomic_load(&in_write)) usleep(1000);
  pid_t child = fork();
  if (child == 0) _exit(in_child());
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or waitpid");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x",
        (unsigned)status);
  pthread_join(thread, NULL);
  mem_free(first);
  puts("the fork and the thread went on");
  return 0;
}
