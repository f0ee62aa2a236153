/* sheet.h - text that is put together in a buffer, to be written by one system call: so that what several processes write
 * to one file does not mix. */
#ifndef HAK_OBSERVE_SHEET_H
#define HAK_OBSERVE_SHEET_H

#include <stddef.h>
#include <string.h>

#include "observe/report.h"

struct sheet {
  char *text;    /* the caller's, and large enough: what does not fit is dropped */
  size_t room;   /* bytes of it */
  size_t length; /* written so far */
};

static inline void sheet_put(struct sheet *sheet, const char *text, size_t length) {
  HAK_CHECK(length <= sheet->room - sheet->length);
  if (length > sheet->room - sheet->length) return;
  memcpy(sheet->text + sheet->length, text, length);
  sheet->length += length;
}

/** Ends the line: onto the sheet instead of stderr. */
static inline void sheet_end_line(struct sheet *sheet, struct report *line) {
  line->text[line->length++] = '\n';
  sheet_put(sheet, line->text, line->length);
}

#endif
