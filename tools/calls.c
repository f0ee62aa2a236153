/* calls.c - see calls.h. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

enum { CALLS_MOST = 4 };

char *calls_text(const struct site *site, struct symbols *symbols, bool with_line, char *text,
                 size_t room) {
  size_t length = 0;
  unsigned depth = site != NULL ? site->depth : 0;
  snprintf(text, room, "%s", depth == 0 ? "(stack unknown)" : "");
  for (unsigned i = 0; i < depth && i < CALLS_MOST && length < room; i++) {
    struct symbol symbol = symbols_find(symbols, site->addresses[i] - 1);
    const char *behind = i > 0 ? " < " : "";
    const char *slash = symbol.file != NULL ? strrchr(symbol.file, '/') : NULL;
    if (symbol.function == NULL)
      snprintf(text + length, room - length, "%s0x%llx", behind,
               (unsigned long long)site->addresses[i]);
    else if (with_line && i == 0 && symbol.file != NULL)
      snprintf(text, room, "%s (%s:%d)", symbol.function, slash != NULL ? slash + 1 : symbol.file,
               symbol.line);
    else snprintf(text + length, room - length, "%s%s", behind, symbol.function);
    length = strlen(text);
  }
  make_printable(text, room);
  return text;
}
