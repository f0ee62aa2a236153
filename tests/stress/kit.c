#include "kit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FULL_BYTES 2048 /* patterns are written in full up to here */
#define STRIDE 1024     /* and a word in each stride after it */
#define HEADER 16       /* size and tag of a block */

#if HAK_TEST_PRELOAD
static int (*stats_get)(struct hak_stats *);
static int (*memory_stats_get)(struct hak_memory_stats *);
static size_t (*purge)(void);
#endif

/* --- failure and time ----------------------------------------------------------------------- */

void kit_fail(const char *file, int line, const char *condition, const char *format, ...) {
  /* On the stack and by write(2): the allocator may be what is broken. */
  char text[512];
  int saved = errno;
  int used =
      snprintf(text, sizeof text, "FAILED %s:%d: %s (errno %d): ", file, line, condition, saved);
  va_list arguments;
  va_start(arguments, format);
  if (used > 0 && (size_t)used < sizeof text - 2)
    used += vsnprintf(text + used, sizeof text - (size_t)used - 1, format, arguments);
  va_end(arguments);
  if (used < 0 || (size_t)used > sizeof text - 2) used = (int)sizeof text - 2;
  text[used] = '\n';
  ssize_t ignored = write(STDERR_FILENO, text, (size_t)used + 1);
  (void)ignored;
  abort();
}

void kit_start(void) {
  setvbuf(stdout, NULL, _IOLBF, 0); /* abort() would lose what is in the buffer */
#if HAK_TEST_PRELOAD
  *(void **)&stats_get = dlsym(RTLD_DEFAULT, "hak_stats_get");
  *(void **)&memory_stats_get = dlsym(RTLD_DEFAULT, "hak_memory_stats_get");
  *(void **)&purge = dlsym(RTLD_DEFAULT, "hak_purge");
  CHECK((stats_get && purge) || getenv("HAK_TEST_ANY_MALLOC"),
        "libhakmem.so is not preloaded (LD_PRELOAD=%s)",
        getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "");
#endif
}

/* The process stays as it is, for `gdb -p`. */
static void hold(int signal_number) {
  char text[80];
  int length =
      snprintf(text, sizeof text, "HELD: process %d, signal %d\n", (int)getpid(), signal_number);
  ssize_t ignored = write(STDERR_FILENO, text, (size_t)length);
  (void)ignored;
  for (;;) pause();
}

void kit_watchdog(unsigned seconds) {
  if (getenv("HAK_TEST_HOLD")) {
    static const int signals[] = {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) signal(signals[i], hold);
  }
  alarm(seconds);
}

uint64_t kit_rounds(uint64_t rounds) {
  const char *scale = getenv("HAK_TEST_SCALE");
  double result = (double)rounds * (scale ? strtod(scale, NULL) : 1.0) / (KIT_SANITIZED ? 10 : 1);
  return result < 1 ? 1 : (uint64_t)result;
}

/* --- random numbers -------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct kit_rng kit_rng_make(uint64_t stream) {
  const char *seed = getenv("HAK_TEST_SEED");
  return (struct kit_rng){mix(stream + mix(seed ? strtoull(seed, NULL, 0) : 1))};
}

uint64_t kit_random(struct kit_rng *rng) {
  rng->state += 0x9e3779b97f4a7c15u;
  return mix(rng->state);
}

uint64_t kit_below(struct kit_rng *rng, uint64_t bound) {
  return (uint64_t)(((unsigned __int128)kit_random(rng) * bound) >> 64);
}

size_t kit_tier_size(struct kit_rng *rng, enum kit_tier tier) {
  static const size_t low[KIT_TIERS] = {1, 1025, 64 * KIT_KB + 1, KIT_MB + 1};
  static const size_t high[KIT_TIERS] = {1024, 64 * KIT_KB, KIT_MB, 4 * KIT_MB};
  size_t range = high[tier] - low[tier] + 1;
  /* Half of the draws from the lowest quarter of the tier. */
  if (kit_random(rng) & 1) range /= 4;
  return low[tier] + kit_below(rng, range);
}

size_t kit_any_size(struct kit_rng *rng) {
  uint64_t draw = kit_below(rng, 1000);
  if (draw < 880) return kit_tier_size(rng, KIT_TINY);
  if (draw < 985) return kit_tier_size(rng, KIT_MID);
  return kit_tier_size(rng, draw < 998 ? KIT_LARGE : KIT_HUGE);
}

/* --- contents -------------------------------------------------------------------------------- */

static unsigned char pattern_byte(uint64_t tag, size_t offset) {
  return (unsigned char)(mix(tag ^ (offset >> 3)) >> (8 * (offset & 7)));
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Where the marked tail of a block starts. */
static size_t tail_start(size_t size) { return size > FULL_BYTES ? size - 16 : size; }

void kit_fill(void *memory, size_t size, uint64_t tag) {
  unsigned char *bytes = memory;
  size_t full = smaller(size, FULL_BYTES);
  size_t offset = 0;
  for (; offset + 8 <= full; offset += 8) {
    uint64_t word = mix(tag ^ (offset >> 3));
    memcpy(bytes + offset, &word, 8);
  }
  for (; offset < full; ++offset) bytes[offset] = pattern_byte(tag, offset);
  for (offset = FULL_BYTES; offset + 8 <= size; offset += STRIDE) {
    uint64_t word = mix(tag ^ (offset >> 3));
    memcpy(bytes + offset, &word, 8);
  }
  for (offset = tail_start(size); offset < size; ++offset)
    bytes[offset] = pattern_byte(tag, offset);
}

static void verify_byte(const unsigned char *bytes, size_t size, size_t offset, uint64_t tag) {
  unsigned char expected = pattern_byte(tag, offset);
  CHECK(bytes[offset] == expected, "block %p of %zu bytes: offset %zu holds 0x%02x, not 0x%02x",
        (const void *)bytes, size, offset, bytes[offset], expected);
}

static void verify_word(const unsigned char *bytes, size_t size, size_t offset, uint64_t tag) {
  uint64_t word;
  memcpy(&word, bytes + offset, 8);
  if (word != mix(tag ^ (offset >> 3)))
    for (size_t i = offset; i < offset + 8; ++i) verify_byte(bytes, size, i, tag);
}

void kit_verify(const void *memory, size_t size, size_t limit, uint64_t tag) {
  const unsigned char *bytes = memory;
  size_t full = smaller(smaller(size, FULL_BYTES), limit);
  size_t offset = 0;
  for (; offset + 8 <= full; offset += 8) verify_word(bytes, size, offset, tag);
  for (; offset < full; ++offset) verify_byte(bytes, size, offset, tag);
  for (offset = FULL_BYTES; offset + 8 <= smaller(size, limit); offset += STRIDE)
    verify_word(bytes, size, offset, tag);
  for (offset = tail_start(size); offset < smaller(size, limit); ++offset)
    verify_byte(bytes, size, offset, tag);
}

void kit_verify_zero(const void *memory, size_t size) {
  const unsigned char *bytes = memory;
  size_t step = size <= 64 * KIT_KB ? 1 : 61; /* odd, so that every position in a word is seen */
  for (size_t offset = 0; offset < size; offset += step)
    CHECK(bytes[offset] == 0, "calloc block %p of %zu bytes: offset %zu holds 0x%02x", memory, size,
          offset, bytes[offset]);
}

/* --- blocks that know themselves ------------------------------------------------------------- */

static unsigned char *block_address(kit_block block) {
  return (unsigned char *)(block & ~(uintptr_t)15);
}

static uint64_t block_tag(kit_block block) {
  if (block & 15) return mix(block);
  uint64_t tag;
  memcpy(&tag, block_address(block) + 8, 8);
  return tag;
}

size_t kit_block_size(kit_block block) {
  if (block & 15) return block & 15;
  size_t size;
  memcpy(&size, block_address(block), 8);
  return size;
}

static void block_verify(const unsigned char *memory, kit_block written, uint64_t tag, size_t size,
                         size_t limit) {
  if (written & 15) kit_verify(memory, size, limit, tag);
  else if (limit > HEADER) kit_verify(memory + HEADER, size - HEADER, limit - HEADER, tag);
}

static kit_block block_write(void *memory, size_t size, uint64_t tag) {
  if (!memory) return 0;
  kit_block block = (uintptr_t)memory;
  CHECK((block & 15) == 0, "block %p of %zu bytes is not aligned to 16", memory, size);
  if (size < 16) {
    block |= size;
    kit_fill(memory, size, block_tag(block));
  } else {
    memcpy(memory, &size, 8);
    memcpy((unsigned char *)memory + 8, &tag, 8);
    kit_fill((unsigned char *)memory + HEADER, size - HEADER, tag);
  }
  return block;
}

kit_block kit_block_malloc(size_t size, uint64_t tag) {
  return block_write(mem_malloc(size), size, tag);
}

kit_block kit_block_aligned(size_t alignment, size_t size, uint64_t tag) {
  void *memory = NULL;
  if ((tag & 1) != 0) memory = mem_aligned_alloc(alignment, size);
  else if (mem_posix_memalign(&memory, alignment, size) != 0) memory = NULL;
  CHECK(((uintptr_t)memory & (alignment - 1)) == 0, "%zu bytes aligned to %zu lie at %p", size,
        alignment, memory);
  return block_write(memory, size, tag);
}

kit_block kit_block_any(struct kit_rng *rng, size_t size) {
  uint64_t draw = kit_random(rng);
  uint64_t tag = draw >> 8;
  /* Alignments to 4 KiB mostly, up to 64 KiB now and then. */
  size_t alignment = (size_t)16 << kit_below(rng, draw & 0x80 ? 9 : 13);
  void *memory = NULL;
  int error;
  switch (draw & 15) {
  case 0:
  case 1:
    memory = mem_calloc(1, size);
    if (memory) kit_verify_zero(memory, size);
    break;
  case 2:
    memory = mem_realloc(NULL, size);
    break;
  case 3:
    memory = mem_aligned_alloc(alignment, size);
    CHECK(((uintptr_t)memory & (alignment - 1)) == 0, "aligned_alloc(%zu, %zu) gave %p", alignment,
          size, memory);
    break;
  case 4:
    error = mem_posix_memalign(&memory, alignment, size);
    if (error) {
      CHECK(errno == error, "posix_memalign gave %d and left errno %d", error, errno);
      memory = NULL;
    }
    CHECK(((uintptr_t)memory & (alignment - 1)) == 0, "posix_memalign(%zu, %zu) gave %p", alignment,
          size, memory);
    break;
  default:
    memory = mem_malloc(size);
  }
  return block_write(memory, size, tag);
}

void kit_block_check(kit_block block) {
  size_t size = kit_block_size(block), usable = mem_usable_size(block_address(block));
  CHECK(usable >= size, "block %p of %zu bytes has %zu", (void *)block_address(block), size,
        usable);
  block_verify(block_address(block), block, block_tag(block), size, size);
}

kit_block kit_block_resize(kit_block block, size_t size, uint64_t tag) {
  kit_block_check(block);
  size_t old_size = kit_block_size(block);
  uint64_t old_tag = block_tag(block);
  unsigned char *memory = mem_realloc(block_address(block), size);
  if (!memory) {
    kit_block_check(block);
    return 0;
  }
  block_verify(memory, block, old_tag, old_size, smaller(old_size, size));
  return block_write(memory, size, tag);
}

void kit_block_free(kit_block block) {
  if (!block) return;
  kit_block_check(block);
  /* A second free or a block handed out twice shows as a wrong pattern from here on. */
  if (!(block & 15)) memset(block_address(block), 0xDD, HEADER);
  mem_free(block_address(block));
}

/* --- what the allocator and the kernel say ---------------------------------------------------- */

struct hak_stats kit_stats(void) {
  struct hak_stats stats = {.size = sizeof stats};
#if HAK_TEST_PRELOAD
  if (stats_get) CHECK(stats_get(&stats) == 0, "hak_stats_get failed");
  else stats.heaps_active = 1; /* another allocator, for comparison: nothing is known */
#else
  CHECK(hak_stats_get(&stats) == 0, "hak_stats_get failed");
#endif
  return stats;
}

struct hak_memory_stats kit_memory_stats(void) {
  struct hak_memory_stats stats = {.size = sizeof stats};
#if HAK_TEST_PRELOAD
  if (memory_stats_get) CHECK(memory_stats_get(&stats) == 0, "hak_memory_stats_get failed");
#else
  CHECK(hak_memory_stats_get(&stats) == 0, "hak_memory_stats_get failed");
#endif
  return stats;
}

size_t kit_purge(void) {
#if HAK_TEST_PRELOAD
  return purge ? purge() : (size_t)malloc_trim(0);
#else
  return hak_purge();
#endif
}

/* By read(2) into the stack: asking must not allocate. */
static size_t read_file(const char *path, char *text, size_t capacity) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0, "cannot open %s", path);
  ssize_t got = read(file, text, capacity - 1);
  close(file);
  CHECK(got > 0, "cannot read %s", path);
  text[got] = '\0';
  return (size_t)got;
}

size_t kit_resident(void) {
  char text[2048];
  read_file("/proc/self/smaps_rollup", text, sizeof text);
  const char *line = strstr(text, "\nRss:");
  CHECK(line, "no Rss in smaps_rollup");
  return strtoull(line + 5, NULL, 10) * KIT_KB;
}

size_t kit_status_kb(const char *name) {
  char text[8192];
  read_file("/proc/self/status", text, sizeof text);
  const char *line = strstr(text, name);
  return line != NULL ? strtoull(line + strlen(name), NULL, 10) : 0;
}

size_t kit_address_space(void) {
  char text[256];
  read_file("/proc/self/statm", text, sizeof text);
  return strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

int kit_tasks(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks, "cannot read /proc/self/task");
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}
