/* report.c - see report.h. */
#include "observe/report.h"

#include <string.h>

#include "os/os.h"
#include "os/text.h"

void report_start_bare(struct report *line) { line->length = 0; }

void report_start(struct report *line) {
  report_start_bare(line);
  report_text(line, "hakmem: ");
}

void report_bytes(struct report *line, const char *text, size_t length) {
  size_t room = sizeof line->text - 1 - line->length; /* one byte stays for the newline */
  if (length > room) length = room;
  memcpy(line->text + line->length, text, length);
  line->length += length;
}

void report_text(struct report *line, const char *text) {
  report_bytes(line, text, text_length(text));
}

void report_foreign_text(struct report *line, const char *text, size_t length) {
  size_t shown = length > 128 ? 128 : length;
  for (size_t i = 0; i < shown; i++) {
    unsigned char c = (unsigned char)text[i];
    report_bytes(line, c < ' ' || c == 127 ? "?" : &text[i], 1);
  }
  if (shown < length) report_text(line, "...");
}

static void digits(struct report *line, uint64_t value, unsigned base) {
  char reversed[20];
  size_t length = 0;
  do {
    reversed[length++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  while (length > 0) report_bytes(line, &reversed[--length], 1);
}

void report_number(struct report *line, uint64_t value) { digits(line, value, 10); }

void report_pointer(struct report *line, const void *pointer) {
  report_text(line, "0x");
  digits(line, (uintptr_t)pointer, 16);
}

/* Of two threads that write at once the texts may mix. */
static _Atomic char last[256];

static void keep_last(const struct report *line) {
  size_t length = line->length < sizeof last - 1 ? line->length : sizeof last - 1;
  for (size_t i = 0; i <= length; i++)
    atomic_store_explicit(&last[i], i < length ? line->text[i] : 0, memory_order_relaxed);
}

void report_last(char *text, size_t room) {
  for (size_t i = 0; i < room; i++)
    text[i] = i < sizeof last ? atomic_load_explicit(&last[i], memory_order_relaxed) : 0;
  text[room - 1] = 0;
}

void report_end(struct report *line) {
  keep_last(line);
  line->text[line->length++] = '\n';
  os_write_error(line->text, line->length);
}

void report_end_here(struct report *line) {
  line->text[line->length++] = '\n';
  os_write_error_here(line->text, line->length);
}

_Noreturn void report_bad_pointer(const char *function, const void *pointer, const char *what) {
  struct report line;
  report_start(&line);
  report_text(&line, function);
  report_text(&line, "(): ");
  report_pointer(&line, pointer);
  report_text(&line, ": ");
  report_text(&line, what);
  report_end(&line);
  os_abort();
}

_Noreturn void report_corruption(const char *what) {
  struct report line;
  report_start(&line);
  report_text(&line, "internal error: ");
  report_text(&line, what);
  report_end(&line);
  os_abort();
}
