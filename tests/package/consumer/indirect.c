/* indirect.c - a program that names nothing of hakmem, only functions of libc that allocate, still
 * runs on it. The weak reference tells, and does not itself pull the library in. */
#include <stdio.h>
#include <string.h>

extern const char *hak_version(void) __attribute__((weak));

int main(void) {
  char text[] = "one\ntwo\n";
  FILE *stream = fmemopen(text, strlen(text), "r");
  if (stream == NULL || fclose(stream) != 0) return 1;
  if (hak_version == NULL) {
    fputs("hakmem is not linked in\n", stderr);
    return 1;
  }
  return 0;
}
