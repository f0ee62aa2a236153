/* core_said.c - see core_end.h: what hakmem wrote last.
 *
 * It puts a message together in the stack of the thread that writes it. When the message ends the process, little runs after it, so the text
 * mostly is still there: below the stack pointer, or in frames above it.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core_end.h"

static const char begins[] = "hakmem: ";

static bool is_known(const struct core_said *said, const char *line, size_t length) {
  for (unsigned i = 0; i < said->count; i++)
    if (strlen(said->lines[i]) == length && memcmp(said->lines[i], line, length) == 0) return true;
  return false;
}

/* A line that ends, and is all text; not one that is set in, which has a place in code. Where it ends; NULL: it is none. */
static const char *take_line(struct core_said *said, const char *at, const char *end) {
  size_t length = 0, room = (size_t)(end - at);
  while (length < room && length + 1 < LINE_ROOM && at[length] >= ' ' && at[length] < 0x7f)
    length++;
  if (length == room || at[length] != '\n' || length < sizeof begins ||
      at[sizeof begins - 1] == ' ')
    return NULL;
  if (said->count < LINES_KEPT && !is_known(said, at, length)) {
    memcpy(said->lines[said->count], at, length);
    said->lines[said->count++][length] = 0;
  }
  return at + length;
}

static void search(struct core_said *said, const char *bytes, size_t count) {
  const char *end = bytes + count;
  for (const char *at = bytes; at < end && said->count < LINES_KEPT;) {
    at = memmem(at, (size_t)(end - at), begins, sizeof begins - 1);
    if (at == NULL) return;
    const char *next = take_line(said, at, end);
    at = next != NULL ? next : at + 1;
  }
}

void core_find_said(const struct core *core, struct core_said *said) {
  enum { BELOW = 64 * 1024, ABOVE = 192 * 1024 };
  said->count = 0;
  if (core->thread_count == 0) return;
  uint64_t stack = core->threads[0].stack;
  const struct core_segment *segment = core_segment_at(core, stack);
  if (segment == NULL) return;
  uint64_t start = stack - segment->start > BELOW ? stack - BELOW : segment->start;
  uint64_t end = segment->start + segment->filed;
  if (end <= start) return;
  if (end - start > BELOW + ABOVE) end = start + BELOW + ABOVE;
  char *bytes = malloc(end - start);
  if (bytes != NULL && core_read_kept(core, start, bytes, end - start))
    search(said, bytes, end - start);
  free(bytes);
}
