/* static.c - a program without a dynamic linker. */
#include <stdio.h>

int main(void) {
  puts("ran");
  return 0;
}
