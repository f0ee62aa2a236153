/* The distance from a block to the C library's code: where it is the same in each run, up to what lies inside 4 MiB,
 * the address of a block tells where all code lies. */
#include "guarantee.h"

#include <sys/wait.h>

static uintptr_t distance_here(void) {
  return (uintptr_t)opaque(take(tier.full)) - (uintptr_t)dlsym(RTLD_DEFAULT, "getpid");
}

static uintptr_t distance_in_another_run(void) {
  int ends[2];
  uintptr_t distance = 0;
  if (pipe(ends) != 0) give_up("no pipe");
  pid_t child = fork();
  if (child == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", ends[1]);
    char name[16];
    snprintf(name, sizeof name, "%s", tier.name);
    char program[] = "/proc/self/exe", what[] = "tell";
    setenv("GUARANTEE_PIPE", number, 1);
    char *arguments[] = {program, name, what, NULL};
    execv(program, arguments);
    _exit(5);
  }
  close(ends[1]);
  if (read(ends[0], &distance, sizeof distance) != sizeof distance) give_up("no answer");
  close(ends[0]);
  waitpid(child, NULL, 0);
  return distance;
}

void run(void) {
  const char *end = getenv("GUARANTEE_PIPE");
  if (end != NULL) {
    uintptr_t distance = distance_here();
    _exit(write((int)strtol(end, NULL, 10), &distance, sizeof distance) == sizeof distance ? 0 : 5);
  }
  enum { RUNS = 8 };
  const uintptr_t near = (uintptr_t)4 << 20;
  uintptr_t distances[RUNS];
  unsigned same = 0;
  for (int i = 0; i < RUNS; i++) {
    distances[i] = distance_in_another_run();
    same += i > 0 && distances[i] - distances[0] + near < 2 * near;
  }
  /* A twin only asks. */
  if (!twin && same >= RUNS / 2) harm("the distance to code is the same in each run");
  survived();
}
