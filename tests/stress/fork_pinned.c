/* Forks while other threads allocate and free blocks on pinned pages: buffers that are registered with io_uring, which a device
 * may write to. The kernel copies such pages at once, and a thread that writes to them does not wait until all are
 * copied; so the child may find older links in them than the lists that lead there.
 *
 * usage: fork_pinned [forks] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#if !__has_include(<linux/io_uring.h>)
int main(void) {
  puts("skipped: no <linux/io_uring.h>");
  return KIT_SKIP;
}
#else

#include <linux/io_uring.h>
#include <sys/syscall.h>

enum { THREADS = 2, BLOCKS = 2000, SIZE = 512, RANGES = 100, PIECE = 4096 * 16 };

static atomic_bool stop;
static atomic_int pinned;
static int ring = -1;
static struct iovec ranges[RANGES];
static unsigned range_count;

/* The 64 KiB that a block lies in. Threads come one after the other. */
static void add_range(char *block) {
  char *start = block - (uintptr_t)block % PIECE;
  for (unsigned i = 0; i < range_count; i++)
    if (ranges[i].iov_base == start) return;
  if (range_count < RANGES) ranges[range_count++] = (struct iovec){start, PIECE};
}

static void *hammer(void *argument) {
  uintptr_t number = (uintptr_t)argument;
  static _Thread_local char *blocks[BLOCKS];
  while ((uintptr_t)atomic_load(&pinned) != number) usleep(100);
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = mem_malloc(SIZE), "malloc failed");
    memset(blocks[i], i, SIZE);
    add_range(blocks[i]);
  }
  atomic_fetch_add(&pinned, 1);
  struct kit_rng rng = kit_rng_make(number);
  while (!atomic_load(&stop)) {
    size_t from = kit_below(&rng, BLOCKS - 64), count = kit_below(&rng, 64);
    for (size_t i = 0; i < count; i++) mem_free(blocks[from + i]);
    for (size_t i = 0; i < count; i++) {
      CHECK(blocks[from + i] = mem_malloc(SIZE), "malloc failed");
      memset(blocks[from + i], (int)i, 64);
    }
  }
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  return NULL;
}

static void *use(void *unused) {
  static _Thread_local char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = mem_malloc(SIZE), "malloc failed");
    memset(blocks[i], i, SIZE);
  }
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i][SIZE - 1] == (char)i, "a block was overwritten");
    mem_free(blocks[i]);
  }
  return unused;
}

static void in_child(void) {
  kit_watchdog(30);
  pthread_t ids[THREADS];
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, use, NULL) == 0, "cannot create thread");
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  use(NULL);
  _exit(0);
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(200);
  uint64_t forks = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(600);
  struct io_uring_params parameters = {0};
  ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
  if (ring < 0) {
    printf("skipped: io_uring_setup: %s\n", strerror(errno));
    return KIT_SKIP;
  }
  pthread_t ids[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, hammer, (void *)i) == 0, "cannot create thread");
  while (atomic_load(&pinned) < THREADS) usleep(1000);
  bool registered =
      syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, ranges, range_count) == 0;
  int error = errno;
  for (uint64_t i = 0; registered && i < forks; i++) {
    pid_t child = fork();
    if (child == 0) in_child();
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %lu ended with %#x",
          (unsigned long)i, (unsigned)status);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  close(ring);
  if (!registered) {
    printf("skipped: the pages cannot be registered: %s\n", strerror(error));
    return KIT_SKIP;
  }
  printf("%lu forks beside pinned pages\n", (unsigned long)forks);
  return 0;
}
#endif
