/* A block is freed by two threads, neither of which took it. */
#include "guarantee.h"

static void *free_once(void *block) {
  free(block);
  return NULL;
}

static void *free_again(void *block) {
  free_badly(block);
  return NULL;
}

void run(void) {
  void *block = take(tier.size);
  in_a_thread(free_once, block);
  in_a_thread(free_again, opaque(block));
  end_if_all_differ(tier.size);
}
