/* other_libc.c - a library in a namespace of its own (dlmopen) has a libc of its own, whose keys of thread-local values have the numbers of ours.
 *
 * usage: other_libc LIBRARY    threads use the library's keys beside malloc; none of them finds a value that it has not set
 */
#include "api_test.h"

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 8, BLOCKS = 200 };

static int (*use_keys)(void);

static void require(bool condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "other_libc: %s\n", what);
    exit(1);
  }
}

static void *work(void *unused) {
  for (size_t i = 0; i < BLOCKS; i++) free(malloc(100 * i));
  require(use_keys() == 0, "another libc's key has a value");
  for (size_t i = 0; i < BLOCKS; i++) free(malloc(100 * i));
  return unused;
}

int main(int argc, char **argv) {
  require(argc == 2, "usage: other_libc LIBRARY");
  void *library = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
  require(library != NULL, "no namespace of its own");
  *(void **)&use_keys = dlsym(library, "other_uses_keys");
  require(use_keys != NULL, "the library lacks a function");
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
    require(pthread_join(thread, NULL) == 0, "no end of a thread");
  }
  require(dlclose(library) == 0, "the library stays");
  return 0;
}
