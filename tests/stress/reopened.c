/* reopened.c - one thread allocates, another closes a descriptor and puts a file in its place again and again, as programs do with 0 to 2: it never loses
 * the file, nor finds another one there. Once a helper is there: before that a file is open for a moment (hakmem(5), System calls).
 *
 * usage: reopened [start]     start: counts from the start on, and says how often it was so */
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  SIZE = 8000,
  BLOCKS = 40000,
  HELPER_BLOCKS = 3000,
  LARGE = 200000,
  WAIT_MS = 20000,
  OWN_LINKS = 2,
  THREADS = 3
};

static atomic_size_t taken;
static atomic_bool goes_on;

static void *grow(void *argument) {
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i >= HELPER_BLOCKS && !atomic_load(&goes_on)) {
      mem_free(mem_malloc(LARGE)); /* a helper comes with it, also where no sampler calls for one */
      usleep(1000);
    }
    void *block = mem_malloc(SIZE);
    CHECK(block != NULL, "out of memory");
    memset(block, 1, SIZE);
    atomic_store(&taken, i + 1);
  }
  return argument;
}

/* A directory has a link for each one in it, and two of its own. */
static bool helper_has_come(void) {
  struct stat tasks;
  for (int i = 0; i < WAIT_MS; i++) {
    if (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink >= OWN_LINKS + THREADS) return true;
    usleep(1000);
  }
  return false;
}

int main(int argc, char **argv) {
  bool from_start = argc > 1 && strcmp(argv[1], "start") == 0;
  kit_start();
  kit_watchdog(200);
  struct stat wanted, seen;
  int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  CHECK(file > 0 && fstat(file, &wanted) == 0, "cannot open /dev/zero");
  /* With a heap of its own: else nobody would tell the helper that the other thread has ended, and it comes and goes. */
  mem_free(mem_malloc(SIZE));
  pthread_t thread;
  atomic_store(&goes_on, from_start);
  CHECK(pthread_create(&thread, NULL, grow, NULL) == 0, "cannot create a thread");
  if (!from_start) {
    CHECK(helper_has_come(), "no helper came");
    atomic_store(&goes_on, true);
  }
  size_t turns = 0, lost = 0, others = 0;
  for (; atomic_load(&taken) < BLOCKS; turns++) {
    close(0);
    dup2(file, 0);
    if (fstat(0, &seen) != 0) lost++;
    else if (seen.st_ino != wanted.st_ino || seen.st_dev != wanted.st_dev) others++;
  }
  pthread_join(thread, NULL);
  printf("%zu turns: 0 lost in %zu, another file there in %zu\n", turns, lost, others);
  CHECK(from_start || lost + others == 0, "a descriptor of the program was touched");
  return 0;
}
