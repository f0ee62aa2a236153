/* With a long HAKMEM_WARM_POOL_DECAY_MS free memory stays for as long: the helper's scans are half of it apart, however long that is.
 * The environment says 60 seconds. With scans at most 10 seconds apart the memory went after 30. */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1000, SECONDS = 35 };
#define BYTES (64 * KIT_MB)

static void *blocks[BYTES / BLOCK_BYTES];

static void *sleep_long(void *argument) {
  for (;;) pause();
  return argument;
}

int main(void) {
  kit_start();
  pthread_t other; /* the helper serves programs that have one */
  CHECK(pthread_create(&other, NULL, sleep_long, NULL) == 0, "cannot create thread");
  size_t count = sizeof blocks / sizeof *blocks;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = calloc(1, BLOCK_BYTES);
    CHECK(blocks[i] != NULL, "out of memory");
  }
  /* One in 100 stays, so that slabs do: their pages are what scans give back. */
  for (size_t i = 0; i < count; i++)
    if (i % 100 != 0) free(blocks[i]);
  size_t before = kit_resident();
  sleep(SECONDS);
  size_t after = kit_resident();
  printf("%zu MB resident, %zu after %d s\n", before / KIT_MB, after / KIT_MB, SECONDS);
  CHECK(after >= before - before / 10, "memory went before its time");
  return 0;
}
