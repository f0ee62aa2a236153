/* guarantee.c - see guarantee.h. */
#include "guarantee.h"

static const struct tier tiers[] = {
    {"tiny", 100, 112, 256},
    {"mid", 20000, 21824, 128},
    {"large", 300000, 327680, 24},
    {"huge", 5000000, 6291456, 12},
};

struct tier tier;
bool twin;
struct crowd crowd, crowd_of_others;

/* Memory that is in use from the start: otherwise what the C library allocates in between (for a new thread,
 * say) could be mapped at the very address that was just freed. */
__attribute__((constructor)) static void warm_up(void) {
  free(opaque(malloc(700)));
  opaque(malloc(700));
}

static void say(const char *line) {
  if (write(STDOUT_FILENO, line, strlen(line)) < 0) _exit(4);
}

void survived(void) {
  say(twin ? "well\n" : "survived\n");
  /* A twin ends as programs do, a heap that a mistake was made in is not used any further. */
  if (twin) exit(0);
  _exit(0);
}

void harm(const char *what) {
  say("harm: ");
  say(what);
  say("\n");
  _exit(twin ? 3 : 1);
}

void give_up(const char *why) {
  say("not tried: ");
  say(why);
  say("\n");
  _exit(2);
}

void announce(const char *function, const void *pointer) {
  if (twin) return;
  char line[100] = "due - -\n";
  const char *name = function == NULL ? "-" : function;
  if (pointer == NULL) snprintf(line, sizeof line, "due %s -\n", name);
  else snprintf(line, sizeof line, "due %s 0x%llx\n", name, (unsigned long long)(uintptr_t)pointer);
  say(line);
}

void access_begins(void) { say("access\n"); }
void access_ends(void) { say("accessed\n"); }

void change_byte(unsigned char *at) {
  volatile unsigned char *byte = opaque(at);
  *byte = (unsigned char)~*byte;
}

unsigned char *take(size_t size) {
  unsigned char *block = opaque(malloc(size));
  if (block == NULL) give_up("malloc gave NULL");
  block[0] = block[size - 1] = 1;
  return block;
}

void free_badly(void *pointer) {
  if (twin) return;
  announce("free", pointer);
  free(opaque(pointer));
}

void *in_a_thread(void *(*function)(void *), void *argument) {
  pthread_t thread;
  void *result = NULL;
  if (pthread_create(&thread, NULL, function, argument) != 0) give_up("no thread");
  pthread_join(thread, &result);
  return result;
}

/* --- many blocks -------------------------------------------------------------------------------------- */

static const size_t END = 64; /* bytes of each end that are looked at; all of a tiny block */

static unsigned char pattern_of(unsigned number) { return (unsigned char)(number % 200 + 20); }

void crowd_take_untouched(struct crowd *blocks, size_t size, unsigned count) {
  blocks->count = count < CROWD_MAX ? count : CROWD_MAX;
  blocks->size = size;
  for (unsigned i = 0; i < blocks->count; i++) {
    blocks->block[i] = opaque(malloc(size));
    if (blocks->block[i] == NULL) give_up("malloc gave NULL");
  }
}

void crowd_take(struct crowd *blocks, size_t size, unsigned count) {
  crowd_take_untouched(blocks, size, count);
  size_t end = size < 2 * END ? size : END;
  for (unsigned i = 0; i < blocks->count; i++) {
    memset(blocks->block[i], pattern_of(i), end);
    memset(blocks->block[i] + size - end, pattern_of(i), end);
  }
}

void crowd_free(const struct crowd *blocks) {
  for (unsigned i = 0; i < blocks->count; i++) free(blocks->block[i]);
}

bool crowd_touches(const struct crowd *blocks, const void *start, size_t length) {
  uintptr_t first = (uintptr_t)start, last = first + length;
  for (unsigned i = 0; i < blocks->count; i++) {
    uintptr_t block = (uintptr_t)blocks->block[i];
    if (block < last && first < block + blocks->size) return true;
  }
  return false;
}

bool crowd_overlaps(const struct crowd *blocks) {
  for (unsigned i = 0; i < blocks->count; i++)
    for (unsigned j = 0; j < i; j++) {
      uintptr_t one = (uintptr_t)blocks->block[i], other = (uintptr_t)blocks->block[j];
      if (one < other + blocks->size && other < one + blocks->size) return true;
    }
  return false;
}

bool crowd_is_intact(const struct crowd *blocks, unsigned number) {
  const unsigned char *block = opaque(blocks->block[number]);
  for (size_t i = 0; i < END; i++)
    if (block[i] != pattern_of(number) || block[blocks->size - 1 - i] != pattern_of(number))
      return false;
  return true;
}

uintptr_t crowd_nearest(const struct crowd *blocks, unsigned *low, unsigned *high) {
  uintptr_t least = UINTPTR_MAX;
  for (unsigned i = 0; i < blocks->count; i++)
    for (unsigned j = 0; j < blocks->count; j++) {
      uintptr_t one = (uintptr_t)blocks->block[i], other = (uintptr_t)blocks->block[j];
      if (one >= other || other - one >= least) continue;
      least = other - one;
      *low = i;
      *high = j;
    }
  return least;
}

void crowd_neighbours(const struct crowd *blocks, unsigned *low, unsigned *high) {
  if (crowd_nearest(blocks, low, high) > (uintptr_t)64 << 20)
    give_up("no two blocks lie within 64 MiB");
}

/* --- what came of it ---------------------------------------------------------------------------------- */

void end_if_all_differ(size_t size) {
  crowd_take_untouched(&crowd, size, tier.many);
  if (crowd_overlaps(&crowd)) harm(HANDED_OUT_TWICE);
  survived();
}

void end_if_all_are_zero(void) {
  for (unsigned i = 0; i < tier.many; i++) {
    unsigned char *block = opaque(calloc(1, tier.full));
    if (block == NULL) give_up("calloc gave NULL");
    for (size_t at = 0; at < tier.full; at++)
      if (block[at] != 0) harm("calloc gives memory that is not zero");
  }
  survived();
}

void end_if_untouched(const void *start, size_t length, const char *what) {
  crowd_take_untouched(&crowd, tier.size, tier.many);
  if (crowd_touches(&crowd, start, length)) harm(what);
  survived();
}

bool comes_back(const void *block, size_t size) {
  /* A quarantine may be large: so many bytes go through it. */
  const size_t bytes = (size_t)128 << 20, most = 500000;
  struct crowd *taken = &crowd;
  bool found = false;
  taken->size = size;
  for (taken->count = 0; taken->count < tier.many && !found; taken->count++) {
    taken->block[taken->count] = opaque(malloc(size));
    found = taken->block[taken->count] == block;
  }
  if (found) return true;
  crowd_free(taken);
  for (size_t i = 0; i < bytes / size + tier.many && i < most; i++) {
    void *again = opaque(malloc(size));
    if (again == block) return true;
    free(again);
  }
  return false;
}

void write_upwards(unsigned char *from, const unsigned char *end) {
  access_begins();
  for (unsigned char *at = opaque(from); at < end; at++) *(volatile unsigned char *)at = 'A';
  access_ends();
}

void write_downwards(unsigned char *from, const unsigned char *end) {
  access_begins();
  for (unsigned char *at = opaque(from); at > end;) *(volatile unsigned char *)--at = 'A';
  access_ends();
}

bool holds_word(const unsigned char *bytes, size_t length, uint64_t word) {
  for (size_t i = 0; i + sizeof word <= length; i += sizeof word)
    if (*(const volatile uint64_t *)(const void *)(bytes + i) == word) return true;
  return false;
}

void fill_with_word(unsigned char *bytes, size_t length, uint64_t word) {
  for (size_t i = 0; i + sizeof word <= length; i += sizeof word)
    memcpy(bytes + i, &word, sizeof word);
  opaque(bytes);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "tiny";
  twin = argc > 2 && strcmp(argv[2], "twin") == 0;
  for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++)
    if (strcmp(name, tiers[i].name) == 0) tier = tiers[i];
  if (tier.size == 0) give_up("no such tier");
  run();
  give_up("the program came to no end of its own");
}
