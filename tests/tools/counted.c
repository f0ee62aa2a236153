/* counted.c - malloc and free for a random_mixed that is compiled against them: checks what the
 * benchmark does with its blocks, and writes what it counted to the file named by COUNTED. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *counted_malloc(size_t size);
void counted_free(void *block);

enum { BUCKETS = 8 };

static unsigned long mallocs, frees, live, most_live, smallest = -1UL, largest, unwritten;
static unsigned long buckets[BUCKETS];
static size_t low, high;

/* Setting of the test that runs this; there is no default. */
static const char *setting(const char *name) {
  const char *value = getenv(name);
  if (value == NULL) abort();
  return value;
}

__attribute__((constructor)) static void start(void) {
  low = strtoul(setting("COUNTED_LOW"), NULL, 10);
  high = strtoul(setting("COUNTED_HIGH"), NULL, 10);
}

__attribute__((destructor)) static void finish(void) {
  FILE *out = fopen(setting("COUNTED"), "w");
  if (out == NULL) abort();
  fprintf(out, "mallocs %lu\nfrees %lu\nlive %lu\nmost_live %lu\nsmallest %lu\nlargest %lu\n",
          mallocs, frees, live, most_live, smallest, largest);
  fprintf(out, "unwritten %lu\n", unwritten);
  for (int i = 0; i < BUCKETS; i++) fprintf(out, "bucket%d %lu\n", i, buckets[i]);
  fclose(out);
}

void *counted_malloc(size_t size) {
  size_t *block = malloc(size + 16);
  if (block == NULL) abort();
  block[0] = size;
  /* Two values that differ, so that the one byte that the benchmark writes to both ends shows. */
  char *bytes = (char *)(block + 2);
  memset(bytes, 1, size);
  bytes[size - 1] = 2;
  mallocs++;
  live++;
  most_live = live > most_live ? live : most_live;
  smallest = size < smallest ? size : smallest;
  largest = size > largest ? size : largest;
  if (size >= low && size <= high) buckets[(size - low) * BUCKETS / (high - low + 1)]++;
  return bytes;
}

void counted_free(void *block) {
  if (block == NULL) return;
  size_t *start_of_block = (size_t *)block - 2;
  const char *bytes = block;
  if (bytes[0] != bytes[start_of_block[0] - 1]) unwritten++;
  frees++;
  live--;
  free(start_of_block);
}
