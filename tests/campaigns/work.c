/* work.c - see work.h. */
#include "work.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OWN = 48, FIGURES = 16 };

static _Atomic(kit_block) shared[WORK_SHARED];
static atomic_bool stop, never_purges;
static atomic_ulong made, freed, refused;
static atomic_uint calm = 1; /* odd: what begins now has to succeed */

static pthread_t ids[WORK_THREADS_MOST];
static unsigned running;

static struct figure {
  const char *name;
  uint64_t value;
} figures[FIGURES];
static size_t figure_count;

/* What the process has when all is freed and given back. */
struct held {
  struct hak_stats stats;
  struct hak_memory_stats memory;
  size_t resident;
};
static struct held before;

uint64_t work_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void work_figure(const char *name, uint64_t value) {
  for (size_t i = 0; i < figure_count; i++)
    if (strcmp(figures[i].name, name) == 0) {
      figures[i].value = value;
      return;
    }
  CHECK(figure_count < FIGURES, "too many figures");
  figures[figure_count++] = (struct figure){name, value};
}

/* --- blocks --------------------------------------------------------------------------------------- */

/* After a call that gave NULL; `since`: `calm` before it. */
static void said_no(unsigned since, size_t size) {
  int error = errno;
  CHECK(error == ENOMEM, "NULL for %zu bytes with errno %d", size, error);
  CHECK((since & 1) == 0 || atomic_load(&calm) != since,
        "NULL for %zu bytes though nothing stands in the way", size);
  atomic_fetch_add(&refused, 1);
}

kit_block work_take(struct kit_rng *rng, size_t size) {
  unsigned since = atomic_load(&calm);
  errno = 0;
  kit_block block = kit_block_any(rng, size);
  if (block != 0) atomic_fetch_add(&made, 1);
  else said_no(since, size);
  return block;
}

void work_drop(kit_block block) {
  if (block == 0) return;
  kit_block_free(block);
  atomic_fetch_add(&freed, 1);
}

/* The block lives on as it was where that fails. */
static kit_block resize(struct kit_rng *rng, kit_block block) {
  size_t old_size = kit_block_size(block), size = kit_any_size(rng);
  unsigned since = atomic_load(&calm);
  errno = 0;
  kit_block resized = kit_block_resize(block, size, kit_random(rng));
  if (resized != 0) return resized;
  CHECK(size > old_size, "a shrink from %zu to %zu bytes was refused", old_size, size);
  said_no(since, size);
  return block;
}

kit_block work_exchange(size_t slot, kit_block block) {
  return atomic_exchange(&shared[slot % WORK_SHARED], block);
}

void work_check(void) {
  for (size_t i = 0; i < WORK_SHARED; i++)
    if (shared[i] != 0) kit_block_check(shared[i]);
}

/* Some MiB of one size, so that memory comes and goes. */
static void burst(struct kit_rng *rng) {
  enum { MOST = 256 };
  kit_block blocks[MOST];
  size_t size = kit_tier_size(rng, (enum kit_tier)kit_below(rng, KIT_TIERS));
  size_t count = 8 * KIT_MB / size + 1 < MOST ? 8 * KIT_MB / size + 1 : MOST;
  for (size_t i = 0; i < count; i++) blocks[i] = work_take(rng, size);
  for (size_t i = 0; i < count; i++) work_drop(blocks[i]);
}

static void turns(struct kit_rng *rng, kit_block *own, size_t count, unsigned calls) {
  for (unsigned i = 0; i < calls; i++) {
    uint64_t draw = kit_random(rng);
    size_t slot = (draw >> 16) % count;
    if (draw % 100 < 40) {
      kit_block block = (draw >> 8) % 3 != 0 ? work_take(rng, kit_any_size(rng)) : 0;
      work_drop(work_exchange(draw >> 24, block));
    } else if (own[slot] == 0) {
      own[slot] = work_take(rng, kit_any_size(rng));
    } else if (draw % 100 < 60) {
      own[slot] = resize(rng, own[slot]);
    } else {
      work_drop(own[slot]);
      own[slot] = 0;
    }
    if ((draw >> 32) % 2000 == 0) burst(rng);
    if ((draw >> 40) % 5000 == 0 && !atomic_load(&never_purges)) kit_purge();
  }
}

void work_turns(struct kit_rng *rng, unsigned calls) {
  kit_block own[8] = {0};
  turns(rng, own, 8, calls);
  for (size_t i = 0; i < 8; i++) work_drop(own[i]);
}

void work_every_tier(struct kit_rng *rng) {
  for (int tier = 0; tier < KIT_TIERS; tier++) {
    size_t size = kit_tier_size(rng, (enum kit_tier)tier);
    kit_block block = work_take(rng, size);
    if (block != 0) block = resize(rng, block);
    work_drop(block);
  }
}

static void *work(void *number) {
  struct kit_rng rng = kit_rng_make((uintptr_t)number);
  kit_block own[OWN] = {0};
  while (!atomic_load(&stop)) turns(&rng, own, OWN, 50);
  for (size_t i = 0; i < OWN; i++) work_drop(own[i]);
  return NULL;
}

/* --- begin and end --------------------------------------------------------------------------------- */

static void memory_stats(struct hak_memory_stats *stats) {
  *stats = (struct hak_memory_stats){.size = sizeof *stats};
#if HAK_TEST_PRELOAD
  static int (*get)(struct hak_memory_stats *);
  if (get == NULL) *(void **)&get = dlsym(RTLD_DEFAULT, "hak_memory_stats_get");
  if (get == NULL) return; /* another allocator, for comparison */
  CHECK(get(stats) == 0, "hak_memory_stats_get failed");
#else
  CHECK(hak_memory_stats_get(stats) == 0, "hak_memory_stats_get failed");
#endif
}

static void look(struct held *held) {
  kit_purge();
  held->stats = kit_stats();
  memory_stats(&held->memory);
  held->resident = kit_resident();
}

void work_begin(unsigned threads, unsigned seconds) {
  kit_watchdog(seconds);
  CHECK(threads <= WORK_THREADS_MOST, "at most %d threads", WORK_THREADS_MOST);
  struct kit_rng rng = kit_rng_make(999);
  work_every_tier(&rng);
  look(&before);
  atomic_store(&made, 0), atomic_store(&freed, 0);
  for (; running < threads; running++)
    CHECK(pthread_create(&ids[running], NULL, work, (void *)(uintptr_t)(running + 1)) == 0,
          "cannot create a thread");
}

void work_never_purges(void) { atomic_store(&never_purges, true); }

void work_press(void) {
  if (atomic_load(&calm) & 1) atomic_fetch_add(&calm, 1);
}

/* What was refused just before may still be on its way out. */
void work_relax(void) {
  if (atomic_load(&calm) & 1) return;
  usleep(1000);
  atomic_fetch_add(&calm, 1);
}

void work_stop(void) {
  atomic_store(&stop, true);
  while (running > 0) pthread_join(ids[--running], NULL);
}

void work_end(enum work_memory memory) {
  work_relax();
  work_stop();
  work_check();
  for (size_t i = 0; i < WORK_SHARED; i++) work_drop(work_exchange(i, 0));
  struct held after;
  look(&after);
  printf("FIGURES blocks=%lu refused=%lu", (unsigned long)made, (unsigned long)refused);
  for (size_t i = 0; i < figure_count; i++)
    printf(" %s=%llu", figures[i].name, (unsigned long long)figures[i].value);
  printf(" resident_before_kb=%zu resident_after_kb=%zu\n", before.resident / KIT_KB,
         after.resident / KIT_KB);
  CHECK(made == freed, "%lu blocks were had, %lu freed", (unsigned long)made, (unsigned long)freed);
  /* libc keeps a little for each thread that has ended. */
  CHECK(after.memory.live <= before.memory.live + 64 * KIT_KB,
        "%lu bytes count as live, %lu before", (unsigned long)after.memory.live,
        (unsigned long)before.memory.live);
  CHECK(after.stats.huge_live <= before.stats.huge_live, "%lu huge blocks are left",
        (unsigned long)after.stats.huge_live);
  CHECK(after.stats.heaps_active <= before.stats.heaps_active, "%lu heaps are active",
        (unsigned long)after.stats.heaps_active);
  CHECK(after.stats.bytes_slab <= before.stats.bytes_slab + KIT_MB,
        "%lu bytes of slabs and spans, %lu before", (unsigned long)after.stats.bytes_slab,
        (unsigned long)before.stats.bytes_slab);
  /* Half a dozen slabs of it, in as many units where it so happens. */
  CHECK(after.stats.superslabs_live <= before.stats.superslabs_live + 8, "%lu superslabs are left",
        (unsigned long)after.stats.superslabs_live);
  CHECK(after.stats.bytes_mapped <= before.stats.bytes_mapped + 16 * KIT_MB,
        "%lu bytes are mapped, %lu before", (unsigned long)after.stats.bytes_mapped,
        (unsigned long)before.stats.bytes_mapped);
  CHECK(memory == WORK_PAGES_MAY_STAY || after.resident <= before.resident + 16 * KIT_MB,
        "%zu KB are resident, %zu before", after.resident / KIT_KB, before.resident / KIT_KB);
}
