/* pages.c - large blocks of which known pages are touched. */
#define _GNU_SOURCE
#include <string.h>

#include "program.h"

static size_t page;

static void touch(char *block, size_t first, size_t step, size_t end) {
  for (size_t i = first; i < end; i += step) ((volatile char *)block)[i * page] = 1;
}

static void simple(void) {
  char *block = named("none", malloc(256 * page));
  free(block);
  block = named("some", malloc(256 * page));
  touch(block, 0, 10, 256);
  free(block);
  block = named("read", malloc(256 * page));
  for (size_t i = 0; i < 7; i++) (void)((volatile char *)block)[i * page];
  free(block);
  block = named("all", malloc(100 * page - 1));
  memset(block, 1, 100 * page - 1);
  free(block);
  block = named("huge", malloc(2000 * page));
  touch(block, 3, 1, 1500);
  free(block);
}

/* The pages held something when their memory was another block's. */
static void zeroed(void) {
  char *block = named("dirty", malloc(256 * page));
  memset(block, 0xFF, 256 * page);
  free(block);
  block = named("zeroed", calloc(256, page));
  for (size_t i = 0; i < 256 * page; i += 64)
    if (block[i] != 0) _exit(1);
  free(block);
  block = named("half", calloc(256, page));
  touch(block, 0, 1, 128);
  free(block);
}

static void aligned(void) {
  char *block = named("aligned", aligned_alloc(64 * page, 128 * page));
  touch(block, 0, 1, 5);
  free(block);
}

/* What it held when it was smaller counts as touched; its contents must come through. */
static void grown(void) {
  char *block = malloc(64 * page);
  memset(block, 0x5A, 64 * page);
  block = named("grown", realloc(block, 1024 * page));
  for (size_t i = 0; i < 64 * page; i++)
    if (block[i] != 0x5A) _exit(2);
  touch(block, 1000, 1, 1010);
  free(block);
  block = malloc(page);
  memset(block, 0x5A, page);
  block = named("from_small", realloc(block, 300 * page));
  for (size_t i = 0; i < page; i++)
    if (block[i] != 0x5A) _exit(3);
  touch(block, 200, 1, 203);
  free(block);
}

int main(void) {
  page = (size_t)sysconf(_SC_PAGESIZE);
  mark();
  simple();
  zeroed();
  aligned();
  grown();
  mark();
  touch(named("left", malloc(512 * page)), 100, 1, 111);
  return 0;
}
