/* quiet.c - a program that goes quiet after it has freed much: what it freed goes back to the system though it
 * calls nothing any more, or little that its thread's caches serve, a second time as well, in the child of a fork too, and
 * the helper thread that does it does not keep the process alive when main ends first.
 *
 * HAKMEM_BACKGROUND=0: where no helper can be started, or resident memory is not this program's. Only what is
 * left is checked then. */
#include "override.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 24 * 1024, BLOCK_BYTES = 1024, WAIT_MS = 100, WAITS = 600, PAIRS = 100 * 1000 };
#define BYTES ((size_t)BLOCKS * BLOCK_BYTES)

static void *blocks[BLOCKS];
static bool with_helper;

static size_t resident_bytes(void) {
  char text[128];
  FILE *file = fopen("/proc/thread-self/statm", "r"); /* of a main thread that has ended: zeros */
  CHECK(file != NULL);
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  unsigned long pages = 0;
  CHECK(sscanf(text, "%*u %lu", &pages) == 1);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void fill_and_free(void) {
  for (int i = 0; i < BLOCKS; i++) blocks[i] = taken(malloc(BLOCK_BYTES), BLOCK_BYTES);
  size_t full = resident_bytes();
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  if (!with_helper) return;
  /* Calls in a hurry, of which the allocator may take no notice for long; then few, those of fopen(). */
  for (int i = 0; i < PAIRS; i++) free(taken(malloc(BLOCK_BYTES), BLOCK_BYTES));
  for (int i = 0; i < WAITS; i++) {
    if (resident_bytes() + BYTES / 2 < full) return;
    nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000L}, NULL);
  }
  CHECK(!"freed memory stays resident");
}

static void in_a_child(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(90); /* a deadlock becomes a failure */
    fill_and_free();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *last(void *main_thread) {
  CHECK(pthread_join(*(pthread_t *)main_thread, NULL) == 0);
  fill_and_free();
  puts("quiet: fine");
  return NULL;
}

int main(void) {
  static pthread_t main_thread, other;
  const char *background = getenv("HAKMEM_BACKGROUND");
  with_helper = background == NULL || strcmp(background, "0") != 0;
  find_library();
  fill_and_free();
  fill_and_free();
  in_a_child();
  if (!with_helper) { /* an emulator, which may hang when main ends first */
    puts("quiet: fine, without a helper thread");
    return 0;
  }
  alarm(120); /* a process that does not end is a failure */
  main_thread = pthread_self();
  CHECK(pthread_create(&other, NULL, last, &main_thread) == 0);
  pthread_exit(NULL);
}
