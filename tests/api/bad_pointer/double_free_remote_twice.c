/* Freed twice by a thread that does not own it: both may lie in one outgoing batch. */
#include "bad_pointer.h"

static void *run(void *block) {
  free(block);
  free_badly(opaque(block), DOUBLE_FREE_OF_TIER);
  return NULL;
}

int main(void) {
  pthread_t thread;
  void *block = take(BLOCK_SIZE);
  if (pthread_create(&thread, NULL, run, block) != 0) return 2;
  pthread_join(thread, NULL);
  return 0;
}
