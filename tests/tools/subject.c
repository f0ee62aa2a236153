/* subject.c - tells what reached it: arguments, some of the environment, and whose malloc it has. Ends
 * as its first argument says: "exit=N", "signal=N", or 0.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  static const char *const names[] = {"LD_PRELOAD", "HAKMEM_PROFILE", "HAKMEM_STATS",
                                      "SUBJECT_VARIABLE"};
  for (int i = 0; i < argc; i++) printf("argument %s\n", argv[i]);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (getenv(names[i]) != NULL) printf("%s=%s\n", names[i], getenv(names[i]));
  bool (*owns)(const void *) = NULL;
  *(void **)&owns = dlsym(RTLD_DEFAULT, "hak_owns");
  void *(*volatile allocate)(size_t) = malloc;
  void *block = allocate(100);
  printf("allocator %s\n", owns != NULL && owns(block) ? "hakmem" : "other");
  printf("pid %ld\n", (long)getpid());
  free(block);
  fflush(stdout);
  if (argc > 1 && strncmp(argv[1], "exit=", 5) == 0) return atoi(argv[1] + 5);
  if (argc > 1 && strncmp(argv[1], "signal=", 7) == 0) kill(getpid(), atoi(argv[1] + 7));
  return 0;
}
