/* malloc within a function that dl_iterate_phdr calls: that holds a lock of the loader's which dlclose waits for while it has one that
 * pthread_create takes. So the helper is not started there, and is by the first malloc after that.
 *
 * Profilers and the code that reads stacks for Rust's panics allocate there. */
#include "kit.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 200
#define BLOCK (300 * KIT_KB)

static atomic_bool ends;

static void *rest(void *argument) {
  while (!atomic_load(&ends)) usleep(10000);
  return argument;
}

static void grow(void) {
  static void *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_malloc(BLOCK);
    CHECK(blocks[i], "malloc failed");
    memset(blocks[i], 1, BLOCK);
  }
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
}

static int in_loader(struct dl_phdr_info *info, size_t size, void *tasks) {
  (void)info;
  (void)size;
  grow();
  *(int *)tasks = kit_tasks();
  return 1;
}

int main(void) {
  kit_start();
  kit_watchdog(60);
  pthread_t id;
  int tasks = 0;
  CHECK(pthread_create(&id, NULL, rest, NULL) == 0, "cannot create thread");
  int before = kit_tasks(); /* a sanitizer has one of its own */
  dl_iterate_phdr(in_loader, &tasks);
#ifdef __GLIBC__
  CHECK(tasks == before, "%d threads within dl_iterate_phdr", tasks);
#endif
  for (int i = 0; i < 20 && tasks <= before; i++) {
    grow();
    tasks = kit_tasks();
  }
  /* One that found nothing to do, and is ending, may still be there beside the next. */
  CHECK(tasks > before, "%d threads afterwards: no helper", tasks);
  atomic_store(&ends, true);
  pthread_join(id, NULL);
  puts("no thread was started within dl_iterate_phdr, and one afterwards");
  return 0;
}
