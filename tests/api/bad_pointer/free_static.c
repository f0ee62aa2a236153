#include "bad_pointer.h"

static char in_data[4096] __attribute__((aligned(4096))) = {1};

int main(void) {
  free_badly(opaque(in_data), FOREIGN);
  return 0;
}
