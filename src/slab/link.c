/* link.c - see link.h. */
#include "slab/link.h"

#include "observe/report.h"
#include "slab/slab.h"

HAK_COLD void link_report(const void *block) {
  report_bad_pointer("malloc", block, REPORT_WRITTEN_AFTER);
}

#if HAK_HARDENED

struct link_secret link_secret;
uint8_t link_mode;
uint32_t link_zeros_end[LINK_CLASSES];
uint32_t link_zeros_most;
_Static_assert(LINK_CLASSES == CLASS_COUNT, "one for each class");
_Static_assert(STATE_FREE + CLASS_COUNT <= STATE_LIVE, "free and live are told apart");

/* HAKMEM_GUARD_ZERO=0: what a mode clears unless told otherwise. docs/decisions/0023 has what it costs. */
enum { ZERO_LIGHT = 128, ZERO_FULL = 1024 };

static bool is_zero(const link_pair *pair, const link_pair *end) {
  link_pair any = {0, 0};
  for (; end - pair >= 4; pair += 4) any |= (pair[0] | pair[1]) | (pair[2] | pair[3]);
  for (; pair < end; pair++) any |= *pair;
  return (any[0] | any[1]) == 0;
}

HAK_NOINLINE void *link_look_far(void *block, size_t end) {
  const link_pair *pairs = block;
  if (!is_zero(pairs + 1, pairs + end / sizeof *pairs)) link_report(block);
  return block;
}

void link_start(void) {
  uint64_t numbers[4];
  if (option_value(FORCE_LIBC_ALLOC)) option_values[OPTION_GUARD] = GUARD_OFF;
  static const uint8_t modes[] = {
      [GUARD_OFF] = LINK_MODE_OFF, [GUARD_LIGHT] = LINK_MODE_LIGHT, [GUARD_FULL] = LINK_MODE_FULL};
  link_mode = modes[option_guard()];
  os_random(numbers);
  os_random(numbers + 2);
  link_secret =
      (struct link_secret){.add = numbers[0], .multiply = numbers[1] | 1, .code = numbers[2] | 1};
  uint32_t most = (uint32_t)option_value(GUARD_ZERO);
  if (most == 0) most = option_guard() == GUARD_FULL ? ZERO_FULL : ZERO_LIGHT;
  if (option_guard() == GUARD_OFF) most = 0;
  link_zeros_most = most & ~(uint32_t)(BLOCK_ALIGNMENT - 1);
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    link_zeros_end[c] = class_size(c) <= most ? class_size(c) : LINK_WORDS_BYTES;
}

void link_set_states(const char *first, unsigned count, uint32_t size, unsigned state) {
  if (option_guard() == GUARD_OFF) return;
  for (unsigned i = 0; i < count; i++) link_set_state(first + (size_t)i * size, state);
}

uint32_t link_draw(uint32_t limit) {
  static _Atomic uint64_t draws;
  /* relaxed: any order of the numbers will do */
  uint64_t draw = atomic_fetch_add_explicit(&draws, 1, memory_order_relaxed);
  uint64_t mixed = link_fold(draw ^ link_secret.code, link_secret.multiply);
  return (uint32_t)((mixed >> 32) * limit >> 32);
}

#endif
