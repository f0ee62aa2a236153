/* link.c - see link.h. */
#include "slab/link.h"

#if HAK_HARDENED

#include "observe/report.h"
#include "slab/slab.h"

struct link_secret link_secret;
uint32_t link_zeroed_most;
uint8_t link_mode;
uint32_t link_sizes[LINK_CLASSES];
_Static_assert(LINK_CLASSES == CLASS_COUNT, "one for each class");
_Static_assert(STATE_FREE + CLASS_COUNT <= STATE_LIVE, "free and live are told apart");

void link_start(void) {
  uint64_t numbers[4];
  if (option_value(FORCE_LIBC_ALLOC)) option_values[OPTION_GUARD] = GUARD_OFF;
  link_mode = option_guard() == GUARD_FULL ? LINK_MODE_FULL : LINK_MODE_OTHER;
  os_random(numbers);
  os_random(numbers + 2);
  link_secret =
      (struct link_secret){.add = numbers[0], .multiply = numbers[1] | 1, .code = numbers[2]};
  if (option_guard() == GUARD_FULL) link_zeroed_most = SMALL_MAX;
  if (option_guard() == GUARD_LIGHT) link_zeroed_most = (uint32_t)option_value(GUARD_ZERO);
  for (unsigned c = 0; c < CLASS_COUNT; c++) link_sizes[c] = class_size(c);
}

HAK_COLD void link_report(const void *block) {
  report_bad_pointer("malloc", block, REPORT_WRITTEN_AFTER);
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

typedef int link_translation_unit_is_not_empty;
