/* early_malloc.c - a library that allocates in its constructor, which runs before that of a preloaded one. */
#include <stdlib.h>

void *early_block(void);

static void *block;

__attribute__((constructor)) static void allocate(void) { block = malloc(100); }

void *early_block(void) { return block; }
