/* options.h - the values of options.def, read once from the environment.
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
#define option_value(id) (option_values[OPTION_##id])
#endif

/** Reads all options from the environment; a value that is not understood costs one line on stderr
 * and leaves the default. In a program with raised privileges the defaults stand. */
void options_read(void);

#endif
