#include "bad_pointer.h"

int main(void) {
  announce("realloc", (void *)(uintptr_t)GARBAGE, FOREIGN);
  return opaque(realloc(opaque((void *)(uintptr_t)GARBAGE), 100)) == NULL;
}
