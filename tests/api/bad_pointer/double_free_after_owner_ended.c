/* The thread that allocated the block is gone. */
#include "bad_pointer.h"

static void *run(void *unused) {
  (void)unused;
  return take(BLOCK_SIZE);
}

int main(void) {
  pthread_t thread;
  void *block = NULL;
  if (pthread_create(&thread, NULL, run, NULL) != 0) return 2;
  pthread_join(thread, &block);
  free(block);
  free_badly(opaque(block), DOUBLE_FREE_OF_TIER);
  return 0;
}
