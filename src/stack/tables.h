/* tables.h - the pages of unwinding tables that a walk has touched. They leave memory when the walk is over.
 *
 * The kernel maps 64 KiB of a file around each page that is touched. So the tables of a large program become most of what the sampler
 * holds: 3 to 5% of clang's peak (docs/decisions/0041).
 */
#ifndef HAK_TABLES_H
#define HAK_TABLES_H

#include "os/os.h"

enum { TABLES_MOST = 8 };

struct tables {
  struct os_range parts[TABLES_MOST]; /* of 64 KiB at most, no two alike */
  unsigned count;
};

/** Something at `address` is about to be read; the table lies in [start, end). */
void tables_touch(struct tables *tables, uintptr_t start, uintptr_t end, uintptr_t address);

/** What was touched so far leaves memory. */
void tables_drop(struct tables *tables);

#endif
