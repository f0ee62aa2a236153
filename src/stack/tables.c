/* tables.c - see tables.h. */
#include "stack/tables.h"

/* What the kernel maps at once (fault_around_bytes, by default), if its pages are not as long themselves. */
#define AROUND ((uintptr_t)64 * KIB)

void tables_touch(struct tables *tables, uintptr_t start, uintptr_t end, uintptr_t address) {
  uintptr_t page = os_page_size(), around = page > AROUND ? page : AROUND;
  uintptr_t low = address / around * around, high = low + around;
  if (low < start) low = start / page * page;
  if (high > end) high = (end + page - 1) / page * page;
  for (unsigned i = 0; i < tables->count; i++)
    if (tables->parts[i].address == (void *)low) return; // NOLINT(performance-no-int-to-ptr)
  if (tables->count == TABLES_MOST) tables_drop(tables);
  tables->parts[tables->count++] =
      (struct os_range){(void *)low, high - low}; // NOLINT(performance-no-int-to-ptr)
}

void tables_drop(struct tables *tables) {
  if (tables->count == 0) return;
  os_drop_file_pages(tables->parts, tables->count);
  tables->count = 0;
}
