/* other_libc_library.c - keys of a library that lives in a namespace of its own, with a libc of its own; see other_libc.c. */
#include <pthread.h>
#include <stdlib.h>

enum { KEYS = 4 };
static pthread_key_t keys[KEYS];

static void destroy(void *value) { free(value); }

__attribute__((constructor)) static void make_keys(void) {
  for (int i = 0; i < KEYS; i++)
    if (pthread_key_create(&keys[i], destroy) != 0) abort();
}

/* A thread has a value only where it has set one. */
int other_uses_keys(void);
int other_uses_keys(void) {
  for (int i = 0; i < KEYS; i++)
    if (pthread_getspecific(keys[i]) != NULL) return 1;
  for (int i = 0; i < KEYS; i++)
    if (pthread_setspecific(keys[i], malloc(50)) != 0) return 2;
  for (int i = 0; i < KEYS; i++) {
    free(pthread_getspecific(keys[i]));
    (void)pthread_setspecific(keys[i], NULL);
  }
  return 0;
}
