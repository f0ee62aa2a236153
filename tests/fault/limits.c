/* What the library takes of the address space, and what follows for limits that come late or are low.
 *
 * usage: limits late      RLIMIT_AS is set in the running program: allocation goes on below it
 *        limits random    under a limit, the first block lies elsewhere in each process
 *        limits mapped    a program with one block has tens of MiB of address space (and core dump), not more
 *        limits locked    mlockall() under a low RLIMIT_MEMLOCK, without privileges */
#include "kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void limit_to(int resource, size_t bytes) {
  struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
  CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
}

/* 100 MB in blocks of a size, written and freed. */
static void use(size_t size) {
  enum { MOST = 100000 };
  static void *blocks[MOST];
  size_t count = 100 * KIT_MB / size < MOST ? 100 * KIT_MB / size : MOST;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = malloc(size);
    CHECK(blocks[i], "block %zu of %zu bytes", i, size);
    memset(blocks[i], (int)i, size);
  }
  for (size_t i = 0; i < count; i++) free(blocks[i]);
}

static int late(void) {
  free(malloc(1));
  limit_to(RLIMIT_AS, (size_t)4 << 30);
  use(100);
  use(30 * KIT_KB);
  use(300 * KIT_KB);
  use(20 * KIT_MB);
  free(malloc(1));
  return 0;
}

static uintptr_t first_block_of_a_process(const char *self) {
  int ends[2];
  uintptr_t address = 0;
  CHECK(pipe(ends) == 0, "pipe");
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    limit_to(RLIMIT_AS, (size_t)2 << 30);
    execl(self, self, "address", (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  FILE *stream = fdopen(ends[0], "r");
  CHECK(stream && fscanf(stream, "%" SCNxPTR, &address) == 1, "no address");
  fclose(stream);
  waitpid(child, NULL, 0);
  return address;
}

static int in_random_places(const char *self) {
  enum { PROCESSES = 8 };
  FILE *setting = fopen("/proc/sys/kernel/randomize_va_space", "r");
  int randomized = 0;
  if (setting != NULL) {
    if (fscanf(setting, "%d", &randomized) != 1) randomized = 0;
    fclose(setting);
  }
  if (randomized == 0 || (personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0) {
    puts("skipped: this system randomizes no addresses");
    return KIT_SKIP;
  }
  uintptr_t first = first_block_of_a_process(self);
  bool differs = false;
  for (int i = 1; i < PROCESSES; i++) differs |= first_block_of_a_process(self) != first;
  CHECK(differs, "all at %#" PRIxPTR, first);
  return 0;
}

static int mapped(void) {
  free(NULL);
  free(malloc(1));
  FILE *statm = fopen("/proc/self/statm", "r");
  size_t pages = 0;
  CHECK(statm && fscanf(statm, "%zu", &pages) == 1, "statm");
  fclose(statm);
  size_t bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
  printf("%zu MiB of address space\n", bytes / KIT_MB);
  CHECK(bytes < 64 * KIT_MB, "%zu MiB", bytes / KIT_MB);
  return 0;
}

static int locked(void) {
  enum { LEAST_MB = 32 };
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "getrlimit");
  if (limit.rlim_max < LEAST_MB * KIT_MB) {
    printf("skipped: RLIMIT_MEMLOCK is %zu KB at most, less than any program here needs\n",
           (size_t)limit.rlim_max / KIT_KB);
    return KIT_SKIP;
  }
  limit_to(RLIMIT_MEMLOCK, LEAST_MB * KIT_MB);
  free(malloc(1));
  if (geteuid() == 0) CHECK(setuid(65534) == 0, "setuid");
  CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall: %s", strerror(errno));
  for (int i = 0; i < 1000; i++) CHECK(malloc(1000 + i), "malloc");
  free(malloc(3 * KIT_MB));
  return 0;
}

int main(int argc, char **argv) {
  kit_start();
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "late") == 0) return late();
  if (strcmp(what, "random") == 0) return in_random_places(argv[0]);
  if (strcmp(what, "mapped") == 0) return mapped();
  if (strcmp(what, "locked") == 0) return locked();
  CHECK(strcmp(what, "address") == 0, "no such test");
  printf("%" PRIxPTR "\n", (uintptr_t)malloc(100));
  return 0;
}
