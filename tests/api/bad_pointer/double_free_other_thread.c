/* Freed by its own thread, then by another. */
#include "bad_pointer.h"

static void *block;

static void *run(void *unused) {
  free_badly(opaque(block), DOUBLE_FREE_OF_TIER);
  return unused;
}

int main(void) {
  pthread_t thread;
  block = take(BLOCK_SIZE);
  free(block);
  if (pthread_create(&thread, NULL, run, NULL) != 0) return 2;
  pthread_join(thread, NULL);
  return 0;
}
