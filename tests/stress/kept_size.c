/* A block that is made smaller keeps its size where the system refuses the memory for a smaller one. Freed with the size that the
 * program knows, it is taken. So it is where the guard behind it is a mapping, as with locked memory, and a limit keeps the kernel from
 * taking it away.
 *
 * usage: kept_size [locked] */
#include "kit.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { BEFORE = 30 * 1024 * 1024, AFTER = 900 * 1024, MOST = 1000 };

typedef void free_sized_function(void *, size_t);

static void set_limit(rlim_t bytes) {
  struct rlimit limit = {bytes, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit failed: %d", errno);
}

static int with_locked_memory(free_sized_function *free_sized) {
  enum { LOCKED = 40 * 1024 * 1024, LESS = LOCKED / 4 };
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
    puts("skipped: memory may not be locked here");
    return KIT_SKIP;
  }
  char *block = malloc(LOCKED);
  CHECK(block != NULL, "no block");
  block[0] = block[LOCKED - 1] = 1;
  struct rlimit limit = {1024 * 1024, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit failed: %d", errno);
  block = realloc(block, LESS);
  CHECK(block != NULL, "realloc to less failed");
  free_sized(block, LESS);
  puts("a block of locked memory was shrunk under a limit, and taken back");
  return 0;
}

int main(int argc, char **argv) {
  static void *others[MOST];
  free_sized_function *free_sized = (free_sized_function *)dlsym(RTLD_DEFAULT, "free_sized");
  CHECK(free_sized != NULL, "the library has no free_sized");
  if (argc > 1 && strcmp(argv[1], "locked") == 0) return with_locked_memory(free_sized);
  void *block = malloc(BEFORE);
  CHECK(block != NULL, "no block");
  set_limit(kit_address_space());
  size_t count = 0;
  while (count < MOST && (others[count] = malloc(AFTER)) != NULL) count++;
  CHECK(count < MOST, "%d blocks fit into what was mapped", MOST);
  uintptr_t before = (uintptr_t)block;
  void *same = realloc(block, AFTER);
  CHECK((uintptr_t)same == before, "realloc gave %p for %#zx", same, (size_t)before);
  set_limit(RLIM_INFINITY);
  free_sized(same, AFTER);
  while (count > 0) free_sized(others[--count], AFTER);
  printf("kept a block of %d bytes that was shrunk to %d, and took it back\n", BEFORE, AFTER);
  return 0;
}
