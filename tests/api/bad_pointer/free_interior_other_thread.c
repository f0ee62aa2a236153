#include "bad_pointer.h"

static void *run(void *block) {
  free_badly((char *)block + (INTO), INTERIOR);
  return NULL;
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, take(BLOCK_SIZE)) != 0) return 2;
  pthread_join(thread, NULL);
  return 0;
}
