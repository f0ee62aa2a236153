/* replace.c - a C program linked with hakmem gets every block from it, libc's own included. */
#include "check.h"

#include <malloc.h>
#include <string.h>

int main(void) {
  int on_stack = 0;
  void *block = malloc(100);
  CHECK(block != NULL && hak_owns(block));
  CHECK(!hak_owns(&on_stack));
  CHECK(malloc_usable_size(block) >= 100);

  block = realloc(block, 300000);
  CHECK(block != NULL && hak_owns(block));
  free(block);

  char *zeroed = calloc(1000, 10);
  CHECK(zeroed != NULL && hak_owns(zeroed));
  CHECK(zeroed[0] == 0 && zeroed[9999] == 0);
  free(zeroed);

  void *aligned = aligned_alloc(4096, 8192);
  CHECK(hak_owns(aligned) && (uintptr_t)aligned % 4096 == 0);
  free(aligned);

  CHECK(posix_memalign(&aligned, 64, 10) == 0);
  CHECK(hak_owns(aligned));
  free(aligned);

  /* allocated inside libc */
  char *copy = strdup("hello");
  CHECK(copy != NULL && hak_owns(copy) && strcmp(copy, "hello") == 0);
  free(copy);

  char *line = NULL;
  size_t room = 0;
  FILE *memory = open_memstream(&line, &room);
  CHECK(memory != NULL);
  CHECK(fputs("text", memory) >= 0);
  CHECK(fclose(memory) == 0);
  CHECK(hak_owns(line) && strcmp(line, "text") == 0);
  free(line);

  void *huge = malloc((size_t)64 << 20);
  CHECK(huge != NULL && hak_owns(huge));
  free(huge);

  CHECK(strcmp(hak_version(), HAKMEM_VERSION_STRING) == 0);
  printf("hakmem %s %s\n", hak_version(), hak_variant());
  return 0;
}
