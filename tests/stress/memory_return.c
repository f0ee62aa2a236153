/* After everything is freed, hak_purge() gives the memory back: tier by tier, allocated by this
 * thread, by threads that ended, and freed by another one. */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>

#define TOTAL ((KIT_SLOW ? 24 : 96) * KIT_MB)
#define MAX_BLOCKS (TOTAL / 48)

static kit_block blocks[MAX_BLOCKS];
static const size_t sizes[] = {48,           700,          5 * KIT_KB, 48 * KIT_KB,
                               200 * KIT_KB, 900 * KIT_KB, 3 * KIT_MB};

static void *fill(void *argument) {
  size_t size = *(const size_t *)argument;
  for (size_t i = 0; i < TOTAL / size; ++i) {
    blocks[i] = kit_block_malloc(size, i);
    CHECK(blocks[i], "malloc(%zu) failed", size);
  }
  return NULL;
}

static void *empty(void *argument) {
  size_t size = *(const size_t *)argument;
  /* Every second first, so that no slab becomes empty before the other half is freed. */
  for (size_t i = 0; i < TOTAL / size; i += 2) kit_block_free(blocks[i]);
  for (size_t i = 1; i < TOTAL / size; i += 2) kit_block_free(blocks[i]);
  return NULL;
}

static void in_thread(void *(*function)(void *), const size_t *size) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, function, (void *)(uintptr_t)size) == 0, "cannot create thread");
  pthread_join(id, NULL);
}

static void run(const char *who, const size_t *size, bool fill_elsewhere, bool empty_elsewhere) {
  size_t resident_before = kit_resident();
  if (fill_elsewhere) in_thread(fill, size);
  else fill((void *)(uintptr_t)size);
  size_t full = kit_stats().bytes_mapped;
  if (empty_elsewhere) in_thread(empty, size);
  else empty((void *)(uintptr_t)size);
  size_t freed = kit_stats().bytes_mapped;
  size_t returned = kit_purge();
  struct hak_stats stats = kit_stats();
  size_t resident = kit_resident();
  printf("%zu B, %s: mapped %zu MB full, %zu freed, %lu purged (%zu returned by purge); resident "
         "%+ld KB\n",
         *size, who, full / KIT_MB, freed / KIT_MB, (unsigned long)(stats.bytes_mapped / KIT_MB),
         returned / KIT_MB, ((long)resident - (long)resident_before) / 1024);
  CHECK(full >= TOTAL / 16 * 15, "bytes_mapped does not count these blocks");
  CHECK(stats.bytes_mapped <= 8 * KIT_MB, "purge left freed memory mapped");
  CHECK(KIT_SANITIZED || resident <= resident_before + 6 * KIT_MB,
        "purge left freed memory resident");
}

int main(void) {
  kit_start();
  fill((void *)(uintptr_t)&sizes[0]); /* makes the list resident before anything is measured */
  empty((void *)(uintptr_t)&sizes[0]);
  kit_purge();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    run("one thread", &sizes[i], false, false);
    run("allocated by an ended thread", &sizes[i], true, false);
    run("freed by an ended thread", &sizes[i], false, true);
  }
  return 0;
}
