/* abort() raises SIGABRT, which a program's crash reporter catches: it has to be able to allocate. */
#include "bad_pointer.h"

#include <signal.h>

static void report(int signal_number) {
  char *p = malloc(100);
  char *q = malloc(100000);
  if (p == NULL || q == NULL) _exit(4);
  free(p);
  free(q);
  (void)signal_number; /* abort() ends the process when this returns */
}

int main(void) {
  signal(SIGABRT, report);
  void *p = take(BLOCK_SIZE);
  free(p);
  free_badly(opaque(p), DOUBLE_FREE_OF_TIER);
  return 0;
}
