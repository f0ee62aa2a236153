/* What a small program does with malloc: a few hundred blocks of some sizes, some of them freed, one changed in size. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 300

static char *volatile blocks[BLOCKS];

int main(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t size = 16 + i * 37 % 700;
    char *block = i % 5 == 0 ? calloc(1, size) : malloc(size);
    if (block == NULL) return 1;
    memset(block, 1, size);
    blocks[i] = block;
  }
  for (size_t i = 0; i < BLOCKS; i += 3) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
  char *longer = realloc(blocks[1], 3000);
  if (longer == NULL) return 1;
  free(longer);
  return write(STDERR_FILENO, "", 0) != 0; /* a system call, at which memory is counted */
}
