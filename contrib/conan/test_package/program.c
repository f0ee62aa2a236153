/* program.c - exit code 1 when a block of malloc, or of libc's own, does not come from hakmem. */
#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  void *mine = malloc(100);
  char *of_libc = strdup("x");
  if (!hak_owns(mine) || !hak_owns(of_libc)) return 1;
  free(of_libc);
  free(mine);
  printf("on hakmem %s, %s\n", hak_version(), hak_variant());
  return 0;
}
