/* dlopen_library.c - hakmem itself loaded by dlopen into a program that runs on another malloc:
 * hak_* has to work from every thread, also from those that began before it came, and the blocks
 * have to stay after dlclose.
 *
 * Usage: dlopen_library <libhakmem.so or libhakmem-api.so>
 */
#include "api_test.h"

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 4, BLOCKS = 500 };

static void *(*hak_malloc_found)(size_t);
static void (*hak_free_found)(void *);
static bool (*hak_owns_found)(const void *);
static pthread_barrier_t loaded, closed;
static void *left_over[THREADS];

static void require(bool condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "dlopen_library: %s\n", what);
    exit(1);
  }
}

static void *find(void *handle, const char *name) {
  void *address = dlsym(handle, name);
  require(address != NULL, name);
  return address;
}

static void use(uint64_t seed) {
  static const size_t sizes[] = {24, 900, 30000, 200000, 3000000};
  void *blocks[BLOCKS];
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    size_t count = sizes[s] < 64 * KIB ? BLOCKS : 5;
    for (size_t i = 0; i < count; i++) {
      blocks[i] = hak_malloc_found(sizes[s]);
      require(blocks[i] != NULL, "hak_malloc gave NULL");
      fill_block(blocks[i], sizes[s], seed + i);
    }
    for (size_t i = 0; i < count; i++) {
      require(block_is_filled(blocks[i], sizes[s], seed + i), "a block was damaged");
      hak_free_found(blocks[i]);
    }
  }
}

static void *run(void *argument) {
  void **mine = argument;
  void *before = malloc(100);
  pthread_barrier_wait(&loaded);
  require(!hak_owns_found(before), "hak_owns claims another malloc's block");
  free(before);
  use((uint64_t)(mine - left_over));
  *mine = hak_malloc_found(1000);
  require(*mine != NULL && hak_owns_found(*mine), "hak_owns does not know its own block");
  fill_block(*mine, 1000, 77);
  pthread_barrier_wait(&closed);
  /* The thread ends after dlclose: what the library does at thread exit has to be there still. */
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  require(argc == 2, "usage: dlopen_library <library>");
  require(pthread_barrier_init(&loaded, NULL, THREADS + 1) == 0, "no barrier");
  require(pthread_barrier_init(&closed, NULL, THREADS + 1) == 0, "no barrier");
  for (int i = 0; i < THREADS; i++)
    require(pthread_create(&threads[i], NULL, run, &left_over[i]) == 0, "no thread");

  /* For the key of a library that comes after the 32nd, glibc allocates. */
  for (int i = 0; i < 40; i++) {
    pthread_key_t unused;
    require(pthread_key_create(&unused, NULL) == 0, "no key");
  }
  void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "dlopen_library: %s\n", dlerror());
    return 1;
  }
  *(void **)&hak_malloc_found = find(handle, "hak_malloc");
  *(void **)&hak_free_found = find(handle, "hak_free");
  *(void **)&hak_owns_found = find(handle, "hak_owns");
  void *own = malloc(1000);
  require(!hak_owns_found(own), "hak_owns claims another malloc's block");
  free(own);

  pthread_barrier_wait(&loaded);
  use(1000);
  require(dlclose(handle) == 0, "dlclose failed");
  pthread_barrier_wait(&closed);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    require(block_is_filled(left_over[i], 1000, 77), "a block of an ended thread was damaged");
  }
  handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  require(handle != NULL, "cannot be loaded again");
  for (int i = 0; i < THREADS; i++) hak_free_found(left_over[i]);
  use(2000);
  return 0;
}
