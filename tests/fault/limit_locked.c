/* A program without privileges that has asked for all its memory to be locked (mlockall, MCL_FUTURE), under a limit of 8 MiB: what fits is
 * to be had, and is locked.
 *
 * usage: limit_locked blocks <least> <most> <MB>   blocks of random sizes of so many MB, each replaced some times
 *        limit_locked grow                         a block that realloc makes 5 MB long
 *        limit_locked nothing                      nothing may be locked: what is free stays when a block is refused
 *        limit_locked unlocked                     munlockall(), and a child of fork: nothing is locked any more, and more than the limit
 *                                                  is to be had */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif

enum { LIMIT_MB = 8 };

static void lock_all(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "getrlimit");
  if (geteuid() != 0 && limit.rlim_max < LIMIT_MB * KIT_MB) {
    puts("skipped: RLIMIT_MEMLOCK is less than 8 MiB");
    exit(KIT_SKIP);
  }
  limit.rlim_cur = limit.rlim_max = LIMIT_MB * KIT_MB;
  CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit: %s", strerror(errno));
  if (geteuid() == 0) CHECK(setuid(65534) == 0, "setuid");
  CHECK(mlockall(MCL_FUTURE) == 0, "mlockall: %s", strerror(errno));
}

/* The kernel takes this advice for no page that is locked. */
static bool is_locked(const char *block, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)block & ~(page - 1);
  bool all = true;
  for (uintptr_t at = first; at < (uintptr_t)block + bytes; at += page)
    all &= madvise((void *)at, page, MADV_COLD) != 0 && errno == EINVAL;
  return all;
}

static char *get(size_t bytes) {
  char *block = malloc(bytes);
  CHECK(block != NULL, "%zu bytes: %s", bytes, strerror(errno));
  CHECK(is_locked(block, bytes), "%zu bytes are not locked", bytes);
  block[0] = block[bytes - 1] = 1;
  return block;
}

static void blocks(size_t least, size_t most, size_t sum) {
  enum { BLOCKS_MOST = 100000, ROUNDS = 10 };
  static char *all[BLOCKS_MOST];
  struct kit_rng random = kit_rng_make(1);
  size_t count = sum / ((least + most) / 2);
  CHECK(count <= BLOCKS_MOST, "too many");
  for (size_t i = 0; i < count; i++) all[i] = get(least + kit_below(&random, most - least + 1));
  for (size_t i = 0; i < ROUNDS * count; i++) {
    size_t at = kit_below(&random, count);
    free(all[at]);
    all[at] = get(least + kit_below(&random, most - least + 1));
  }
}

static void grow(void) {
  char *block = get(1 * KIT_MB);
  for (size_t bytes = 1 * KIT_MB; bytes <= 5 * KIT_MB; bytes += 300 * KIT_KB) {
    block = realloc(block, bytes);
    CHECK(block != NULL && block[0] == 1, "%zu bytes", bytes);
    CHECK(is_locked(block, bytes), "%zu bytes are not locked", bytes);
    block[bytes - 1] = 1;
  }
}

static void use_more(void) {
  enum { COUNT = 6 };
  char *all[COUNT];
  for (int i = 0; i < COUNT; i++) {
    all[i] = malloc(3 * KIT_MB);
    CHECK(all[i] != NULL, "block %d", i);
    memset(all[i], 1, 3 * KIT_MB);
  }
  CHECK(!is_locked(all[COUNT - 1], 3 * KIT_MB), "it is locked");
  for (int i = 0; i < COUNT; i++) free(all[i]);
}

static void unlocked(void) {
  while (malloc(100 * KIT_KB) != NULL) continue; /* the limit is known */
  int status;
  pid_t child = fork();
  if (child == 0) {
    use_more();
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", status);
  CHECK(munlockall() == 0, "munlockall");
  use_more();
}

enum { SMALL = 1000, SMALL_COUNT = 3000, LARGE_COUNT = 10 };
#define LARGE (200 * KIT_KB)

/* How many blocks are to be had, of so many small ones and some large ones; they are free again then. */
static int count_and_free(int small_count) {
  static char *all[2 * SMALL_COUNT + LARGE_COUNT];
  int had = 0, count = small_count + LARGE_COUNT;
  for (int i = 0; i < count; i++) {
    size_t bytes = i < LARGE_COUNT ? LARGE : SMALL;
    all[i] = malloc(bytes);
    if (all[i] != NULL) memset(all[i], 1, bytes), had++;
  }
  for (int i = 0; i < count; i++) free(all[i]);
  return had;
}

/* Small blocks that may be fewer, though nothing has gone. With HAKMEM_GUARD=full two freed spans of large blocks wait, so that ten of these are in
 * twelve, and a slab beside them may be left over: spans are of four slices of 64 KiB. */
static int held_back(void) {
  enum { SPANS = 3, SPAN = 256 * KIT_KB };
  const char *guard = getenv("HAKMEM_GUARD");
  return guard != NULL && strcmp(guard, "full") == 0 ? SPANS * SPAN / SMALL : 0;
}

static void nothing(void) {
  struct rlimit limit;
  (void)count_and_free(SMALL_COUNT);
  CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && mlockall(MCL_FUTURE) == 0, "mlockall");
  limit.rlim_cur = 0;
  CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit");
  if (geteuid() == 0) CHECK(setuid(65534) == 0, "setuid");
  int before = count_and_free(SMALL_COUNT);
  CHECK(malloc(64 * KIT_MB) == NULL, "64 MB were to be had");
  int huge = count_and_free(SMALL_COUNT);
  int most = count_and_free(2 * SMALL_COUNT), after = count_and_free(SMALL_COUNT);
  printf("%d blocks; %d after 64 MB were refused; %d at most, then %d\n", before, huge, most,
         after);
  CHECK(before > SMALL_COUNT / 2, "there was too little to keep");
  CHECK(most < 2 * SMALL_COUNT, "no small block was refused");
  int least = before - LARGE_COUNT - held_back();
  CHECK(huge >= least && after >= least, "what was free has gone");
}

int main(int argc, char **argv) {
  kit_start();
  if (argc > 1 && strcmp(argv[1], "nothing") == 0) {
    nothing();
    return 0;
  }
  lock_all();
  if (argc > 4)
    blocks(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
           strtoul(argv[4], NULL, 10) * KIT_MB);
  else if (argc > 1 && strcmp(argv[1], "grow") == 0) grow();
  else unlocked();
  return 0;
}
