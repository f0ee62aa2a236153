/* Freed by another thread, which then ends, and then by its own. */
#include "bad_pointer.h"

static void *run(void *block) {
  free(block);
  return NULL;
}

int main(void) {
  pthread_t thread;
  void *block = take(BLOCK_SIZE);
  if (pthread_create(&thread, NULL, run, block) != 0) return 2;
  pthread_join(thread, NULL);
  free_badly(opaque(block), DOUBLE_FREE_OF_TIER);
  return 0;
}
