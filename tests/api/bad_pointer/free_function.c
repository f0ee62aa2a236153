#include "bad_pointer.h"

int main(int argc, char **argv) {
  (void)argc;
  (void)argv;
  free_badly((void *)(uintptr_t)main, FOREIGN);
  return 0;
}
