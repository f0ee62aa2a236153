/* A block of libc's own malloc, as a library that was bound to it might hand out. */
#include "bad_pointer.h"

extern void *__libc_malloc(size_t size);

int main(void) {
  free_badly(__libc_malloc(100), FOREIGN);
  return 0;
}
