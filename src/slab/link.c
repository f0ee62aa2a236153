/* link.c - see link.h. */
#include "slab/link.h"

#include "observe/report.h"
#include "slab/slab.h"

HAK_COLD void link_report(const void *block) {
  report_bad_pointer("malloc", block, REPORT_WRITTEN_AFTER);
}

HAK_COLD void *link_refuse(const void *block) { link_report(block); }

#if HAK_HARDENED

struct link_secret link_secret;
uint8_t link_mode;
struct link_class link_classes[LINK_CLASSES];
uint32_t link_zeros_end[LINK_CLASSES];
uint32_t link_zeros_most;
_Static_assert(LINK_CLASSES == CLASS_COUNT, "one for each class");
_Static_assert(STATE_FREE + CLASS_COUNT <= STATE_LIVE, "free and live are told apart");

/* HAKMEM_GUARD_ZERO=0: what a mode clears unless told otherwise. docs/decisions/0023 has what it costs. */
enum { ZERO_LIGHT = 128, ZERO_FULL = 256 };

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

static void start_class(unsigned size_class, uint32_t zeros_most) {
  uint32_t size = class_size(size_class), end = size <= zeros_most ? size : LINK_WORDS_BYTES;
  uint32_t step = class_slices(size_class) == 1 ? size : LINK_STEP_FAR;
  unsigned pairs = end / (unsigned)sizeof(link_pair), most = pairs >= 4 ? 4 : pairs >= 2 ? 2 : 1;
  unsigned pair = sizeof(link_pair);
  link_zeros_end[size_class] = end;
  link_classes[size_class] =
      (struct link_class){.reciprocal = ((UINT64_C(1) << 32) + step - 1) / step,
                          .free = (uint8_t)(STATE_FREE + size_class),
                          .live = (uint8_t)(STATE_LIVE | size_class),
                          .second = (uint8_t)((pairs - most) * pair),
                          .step = (uint8_t)(most > 1 ? pair : 0),
                          .steps2 = (uint8_t)(most > 2 ? 2 * pair : 0),
                          .steps3 = (int8_t)(end > LINK_BY_CALL ? -1 : (int)((most - 1) * pair))};
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
  for (unsigned c = 0; c < CLASS_COUNT; c++) start_class(c, most);
}

/* Bytes one by one: a compiler keeps atomic ones apart. relaxed: see link_state */
static void set_states(_Atomic uint8_t *at, unsigned count, unsigned state) {
  for (_Atomic uint8_t *end = at + count; at < end; at++)
    atomic_store_explicit(at, (uint8_t)state, memory_order_relaxed);
}

void link_set_states(const struct slab *slab, unsigned first, unsigned count, unsigned state) {
  if (option_guard() == GUARD_OFF) return;
  _Atomic uint8_t *states = map_states(slab_base(slab));
  if (class_slices(slab->size_class) == 1) {
    set_states(states + first, count, state);
    return;
  }
  uint32_t size = slab_block_size(slab);
  for (uint32_t at = first * size; count > 0; count--, at += size)
    set_states(states + (at >> SLICE_SHIFT) * STATES_SPARSE + at % SLICE_BYTES / LINK_STEP_FAR, 1,
               state);
}

uint32_t link_draw(uint32_t limit) {
  static _Atomic uint64_t draws;
  /* relaxed: any order of the numbers will do */
  uint64_t draw = atomic_fetch_add_explicit(&draws, 1, memory_order_relaxed);
  uint64_t mixed = link_fold(draw ^ link_secret.code, link_secret.multiply);
  return (uint32_t)((mixed >> 32) * limit >> 32);
}

#endif
