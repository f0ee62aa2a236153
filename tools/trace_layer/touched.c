/* touched.c - see touched.h. */
#define _GNU_SOURCE
#include "touched.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "append.h"
#include "front/block.h"
#include "os/lock.h"

struct sampled {
  uintptr_t block; /* 0: none */
  size_t size;
};

enum { BUCKETS = 512, BUCKET_BLOCKS = 8 };
static struct sampled buckets[BUCKETS][BUCKET_BLOCKS];

/* The first blocks of each power of two are in the sample; then as many as cost about 2% of the time: a page that
 * comes back takes 0.5 us. */
enum { FIRST_BLOCKS = 8, PAGES_PER_SECOND = 40000 };
static struct {
  uint32_t taken;
  uint64_t next; /* time stamp from which the next one is taken */
} sizes[64];

static struct lock lock; /* all of the above */
_Atomic uint32_t touched_count;

static struct sampled *bucket_of(uintptr_t block) {
  return buckets[(block >> 12) * UINT64_C(0x9E3779B97F4A7C15) >> 55];
}

static struct sampled *find(uintptr_t block, uintptr_t wanted) {
  struct sampled *bucket = bucket_of(block);
  for (int i = 0; i < BUCKET_BLOCKS; i++)
    if (bucket[i].block == wanted) return &bucket[i];
  return NULL;
}

static uintptr_t page_above(uintptr_t address) {
  return (address + os_page_size() - 1) & ~(os_page_size() - 1);
}

/* Gives back the whole pages behind the first `keep` bytes; false: they are not to be had. */
static bool empty(void *pointer, size_t keep) {
  struct block block = block_find(pointer);
  if (block.wrong != NULL) return false; /* libc's */
  uintptr_t first = page_above((uintptr_t)pointer + keep);
  uintptr_t end = ((uintptr_t)pointer + block.usable) & ~(os_page_size() - 1);
  return first >= end || os_decommit((void *)first, end - first);
}

/* Under the lock. */
static void enter(void *block, size_t size, size_t keep) {
  if (((uintptr_t)block & 4095) != 0) return; /* touched_may_have would not know it again */
  struct sampled *place = find((uintptr_t)block, (uintptr_t)block);
  if (place == NULL) place = find((uintptr_t)block, 0);
  if (place == NULL || !empty(block, keep)) return;
  if (place->block == 0) atomic_fetch_add_explicit(&touched_count, 1, memory_order_relaxed);
  *place = (struct sampled){(uintptr_t)block, size};
}

void touched_enter(void *block, size_t size, size_t keep) {
  lock_acquire(&lock);
  enter(block, size, keep);
  lock_release(&lock);
}

void touched_look_at(void *block, size_t size, size_t keep) {
  int power = 63 - __builtin_clzll(size);
  uint64_t now = trace_now();
  lock_acquire(&lock);
  if (sizes[power].taken < FIRST_BLOCKS || now >= sizes[power].next) {
    sizes[power].taken += sizes[power].taken < FIRST_BLOCKS;
    sizes[power].next = now + size / os_page_size() * (trace_ticks_per_second / PAGES_PER_SECOND);
    enter(block, size, keep);
  }
  lock_release(&lock);
}

size_t touched_remove(const void *block) {
  size_t size = 0;
  lock_acquire(&lock);
  struct sampled *place = find((uintptr_t)block, (uintptr_t)block);
  if (place != NULL) {
    size = place->size;
    *place = (struct sampled){0};
    atomic_fetch_sub_explicit(&touched_count, 1, memory_order_relaxed);
  }
  lock_release(&lock);
  return size;
}

/* Another thread may have held the lock when the process forked, which the child does not have. */
void touched_forget(void) {
  atomic_store_explicit(&lock.state, 0, memory_order_relaxed);
  if (atomic_exchange_explicit(&touched_count, 0, memory_order_relaxed) != 0)
    memset(buckets, 0, sizeof buckets);
}

uint64_t touched_pages(const void *block, size_t size) {
  enum { AT_ONCE = 512 };
  unsigned char resident[AT_ONCE];
  int saved = errno;
  uint64_t count = 0;
  size_t page = os_page_size();
  uintptr_t from = (uintptr_t)block & ~(page - 1), end = page_above((uintptr_t)block + size);
  while (from < end) {
    size_t pages = (end - from) / page;
    if (pages > AT_ONCE) pages = AT_ONCE;
    if (mincore((void *)from, pages * page, resident) != 0) break;
    for (size_t i = 0; i < pages; i++) count += resident[i] & 1;
    from += pages * page;
  }
  errno = saved;
  return count;
}

/* Under the lock, so that an event lies before that of a thread that frees the block meanwhile. */
static void tell(const struct sampled *place) {
  struct trace_room room = trace_take(1);
  if (room.events == NULL) return;
  lock_acquire(&lock);
  bool any = place->block != 0;
  if (any) {
    const void *block = (const void *)place->block;
    uint64_t pages = touched_pages(block, place->size);
    trace_write(room.events, trace_now_in_order(), block, pages, TRACE_TOUCHED);
  }
  lock_release(&lock);
  trace_publish(room, any);
}

/* Most programs leave their largest blocks to exit(). */
__attribute__((destructor)) static void tell_of_those_left(void) {
  if (!trace_is_on() || atomic_load_explicit(&touched_count, memory_order_relaxed) == 0) return;
  for (int i = 0; i < BUCKETS * BUCKET_BLOCKS; i++)
    if (buckets[i / BUCKET_BLOCKS][i % BUCKET_BLOCKS].block != 0)
      tell(&buckets[i / BUCKET_BLOCKS][i % BUCKET_BLOCKS]);
}
