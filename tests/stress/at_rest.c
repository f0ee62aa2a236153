/* Memory that came to rest where its thread does not look: it has to go back though nobody calls the allocator any
 * more for it.
 *
 * usage: at_rest inbox|busy: 300 MB of one thread, freed by another; the owner sleeps, or works in another class */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 300 << 10, SIZE = 1 << 10, WAIT_SECONDS = 20, MOST_MB = 40 };

static void *blocks[BLOCKS];
static pthread_barrier_t filled;
static atomic_bool done;
static bool busy;

static void *own(void *unused) {
  (void)unused;
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_malloc(SIZE);
    CHECK(blocks[i], "malloc failed");
    memset(blocks[i], 1, SIZE);
  }
  pthread_barrier_wait(&filled);
  while (!atomic_load(&done)) {
    void *others[512];
    for (size_t i = 0; busy && i < 512; i++) others[i] = mem_malloc(64);
    for (size_t i = 0; busy && i < 512; i++) mem_free(others[i]);
    usleep(10000);
  }
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  busy = argc == 2 && strcmp(argv[1], "busy") == 0;
  pthread_t owner;
  pthread_barrier_init(&filled, NULL, 2);
  CHECK(pthread_create(&owner, NULL, own, NULL) == 0, "cannot create thread");
  pthread_barrier_wait(&filled);
  for (size_t i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  size_t resident = kit_resident();
  for (unsigned i = 0; i < WAIT_SECONDS * 10 && resident > MOST_MB * KIT_MB; i++) {
    usleep(100000);
    resident = kit_resident();
  }
  printf("%zu MB resident\n", resident / KIT_MB);
  CHECK(resident <= MOST_MB * KIT_MB, "more than %d MB stay resident", MOST_MB);
  atomic_store(&done, true);
  pthread_join(owner, NULL);
  return 0;
}
