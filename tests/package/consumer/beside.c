/* beside.c - libhakmem-api leaves malloc to libc and serves hak_* beside it. */
#include "check.h"

int main(void) {
  void *theirs = malloc(100);
  void *ours = hak_malloc(100);
  CHECK(theirs != NULL && !hak_owns(theirs));
  CHECK(ours != NULL && hak_owns(ours));
  hak_free(ours);
  free(theirs);
  return 0;
}
