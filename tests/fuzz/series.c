/* series.c - see series.h.
 *
 * What takes time in an input of its own (a start, a fork, a wait, the end) is seldom here, so calls are many: a library that
 * has been in use for long. Everything follows from the seed, the number of the process and what was added.
 */
#include "series.h"

#include "actions.h"
#include "process.h"
#include "random.h"

#include <string.h>

enum {
  SECONDS = 600,  /* of a process that hangs */
  INPUTS = 8,     /* of a process */
  LENGTH = 16384, /* bytes of an input, */
  PIECE = 256,    /* of a piece of it, at most */
  HEADER = 3,     /* input.h */
  CHANGED = 24    /* one byte of so many is another than was added */
};

/* All inputs without their headers, one behind the other. */
static uint8_t pool[1 << 20];
static size_t pool_length;

void series_add(const uint8_t *bytes, size_t length) {
  size_t room = sizeof pool - pool_length;
  if (length <= HEADER) return;
  length = length - HEADER < room ? length - HEADER : room;
  memcpy(pool + pool_length, bytes + HEADER, length);
  pool_length += length;
}

bool series_has_enough(void) { return pool_length > PIECE; }

static uint64_t first_state(uint64_t seed, uint64_t number) {
  return random_mixed(random_mixed(seed) ^ number);
}

/* The options of a process; an input's own are passed over, since the library has read them by then. */
static struct header options_of(uint64_t seed, uint64_t number) {
  uint64_t state = first_state(seed, number);
  return (struct header){.options = (unsigned)(random_draw(&state) & 0xff)};
}

/* As what the fuzzers have found to be worth keeping, nearly. */
static void draw_kept(uint64_t *state, uint8_t *bytes, size_t length) {
  memcpy(bytes, pool + random_draw(state) % (pool_length - PIECE), length);
  for (size_t i = 0; i < length; i++) {
    uint64_t draw = random_draw(state);
    if (draw % CHANGED == 0) bytes[i] = (uint8_t)(draw >> 32);
  }
}

/* As busy programs are: many blocks of up to 255 bytes, or of up to 4 KiB; some of all are freed, by any thread. */
static void draw_busy(uint64_t *state, uint8_t *bytes, size_t length) {
  enum { TAKEN = 8 };
  for (size_t i = 0; i + TAKEN <= length; i += TAKEN) {
    uint64_t draw = random_draw(state), slots = random_draw(state);
    const uint8_t who = draw & 0xe0, size_bits = draw >> 8 & 0x3f;
    const uint8_t taken[TAKEN] = {
        who | ACTION_MANY, slots & 0xff,      size_bits < 48 ? 0 : size_bits & 0x2f,
        draw >> 16 & 0xff, draw >> 24 & 0xff, (draw >> 32 & 0xe0) | ACTION_FREE_MANY,
        slots >> 8 & 0xff, slots >> 16 & 0xff};
    memcpy(bytes + i, taken, TAKEN);
  }
}

static void draw_anything(uint64_t *state, uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)random_draw(state);
}

static size_t draw_piece(uint64_t *state, uint8_t *bytes) {
  size_t length = 8 + random_draw(state) % (PIECE - 8);
  unsigned kind = random_draw(state) % 8;
  if (kind < 3) draw_busy(state, bytes, length &= ~(size_t)7);
  else if (kind < 7) draw_kept(state, bytes, length);
  else draw_anything(state, bytes, length);
  return length;
}

void series_run_here(uint64_t seed, uint64_t number) {
  static uint8_t bytes[LENGTH + PIECE];
  uint64_t state = first_state(seed, number);
  for (int input = 0; input < INPUTS; input++) {
    size_t length = HEADER;
    for (int i = 0; i < HEADER; i++) bytes[i] = (uint8_t)random_draw(&state);
    while (length < LENGTH) length += draw_piece(&state, bytes + length);
    actions_run(bytes, length);
  }
}

struct one {
  uint64_t seed, number;
};

static void run_one(void *argument) {
  const struct one *one = argument;
  series_run_here(one->seed, one->number);
}

bool series_run(uint64_t seed, uint64_t number, char *const *again) {
  struct one one = {seed, number};
  struct header options = options_of(seed, number);
  return process_do(&options, &(struct work){run_one, &one, SECONDS, again});
}
