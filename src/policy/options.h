/* options.h - the values of options.def, read once, from where sources.h says.
 *
 * Thread safety: options_read runs once, before any other thread can allocate; afterwards the values
 * only are read. In the `fast` variant they are constants of the compiler.
 */
#ifndef HAK_POLICY_OPTIONS_H
#define HAK_POLICY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/variant.h"

enum option_id {
#define HAK_OPTION(id, name, type, speed, balanced, lean, low, high, accepted, help) OPTION_##id,
#include "policy/options.def"
#undef HAK_OPTION
  OPTION_COUNT
};

enum { PROFILE_SPEED, PROFILE_BALANCED, PROFILE_LEAN };
enum { HUGEPAGE_OFF, HUGEPAGE_THP, HUGEPAGE_EXPLICIT };
enum { DECOMMIT_OFF, DECOMMIT_FREE, DECOMMIT_DONTNEED };
enum { BACKGROUND_NEVER, BACKGROUND_ALWAYS, BACKGROUND_AUTO };
enum { GUARD_OFF, GUARD_LIGHT, GUARD_FULL };
enum { STATS_OFF, STATS_TEXT, STATS_JSON, STATS_ALL };

#if HAK_FAST
enum {
#define HAK_OPTION(id, name, type, speed, balanced, lean, low, high, accepted, help)               \
  OPTION_FIXED_##id = (balanced),
#include "policy/options.def"
#undef HAK_OPTION
};
#define option_value(id) ((int32_t)OPTION_FIXED_##id)
#else
extern int32_t option_values[OPTION_COUNT];
extern uint8_t option_sources[OPTION_COUNT]; /* enum option_source */
struct option {
  /* arrays, not pointers: a table of pointers would need relocations, and with them private pages
   * in every process that loads the library */
  char name[32];
  char accepted[72];
  int32_t type; /* enum option_type (options.c) */
  int32_t defaults[3];
  int32_t low, high;
};
extern const struct option option_table[OPTION_COUNT];
#define option_value(id) (option_values[OPTION_##id])
#endif

/** Is every malloc and free counted? The observe variant does so without being asked. */
static inline bool option_counting(void) {
  return HAK_OBSERVE || option_value(TINY_HEAP_STATS) || option_value(TINY_FRONT_CLASS_STATS) ||
         option_value(STATS) != STATS_OFF;
}

/** What is checked of each block; GUARD_OFF in all variants but the hardened one. */
static inline int32_t option_guard(void) { return HAK_HARDENED ? option_value(GUARD) : GUARD_OFF; }

/** Does anything print statistics? */
static inline bool option_printing(void) {
  return option_value(STATS) != STATS_OFF || option_value(SS_OS_STATS) ||
         option_value(WARM_POOL_STATS) || option_value(TINY_HEAP_STATS_DUMP) ||
         option_value(TINY_FRONT_CLASS_STATS);
}

/** HAKMEM_STATS_FILE, with its %p and %%; absolute if the working directory was known at start. */
const char *option_stats_file(void);
/** HAKMEM_BLACKBOX, which is absolute likewise. */
const char *option_blackbox(void);

/** Reads all options; a value that is not understood costs one line on stderr and leaves the default. In a program
 * with raised privileges the environment does not count. */
void options_read(void);

#endif
