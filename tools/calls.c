/* calls.c - see calls.h. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { CALLS_MOST = 4 };

/* "server+0x12 (build-id 3a)". */
static void put_unread(const struct unread *unread, uint64_t address, const char *behind,
                       char *text, size_t room) {
  bool has_id = unread->build_id[0] != 0;
  snprintf(text, room, "%s%s+0x%llx%s%s%s", behind, base_name(unread->name),
           (unsigned long long)(address - unread->base), has_id ? " (build-id " : "",
           unread->build_id, has_id ? ")" : "");
}

char *symbol_text(const struct symbol *symbol, char *text, size_t room) {
  const char *file = symbol->file != NULL ? base_name(symbol->file) : NULL;
  if (file == NULL) snprintf(text, room, "%s", symbol->function);
  else if (symbol->line == 0) snprintf(text, room, "%s (%s)", symbol->function, file);
  else snprintf(text, room, "%s (%s:%d)", symbol->function, file, symbol->line);
  make_printable(text, room);
  return text;
}

char *calls_text(const struct site *site, struct symbols *symbols, bool with_line, char *text,
                 size_t room) {
  size_t length = 0;
  unsigned depth = site != NULL ? site->depth : 0;
  snprintf(text, room, "%s", depth == 0 ? "(stack unknown)" : "");
  for (unsigned i = 0; i < depth && i < CALLS_MOST && length < room; i++) {
    uint64_t address = site->addresses[i] - 1;
    struct symbol symbol = symbols_find(symbols, address);
    const struct unread *unread =
        symbol.function == NULL ? symbols_unread_at(symbols, address) : NULL;
    const char *behind = i > 0 ? " < " : "";
    if (unread != NULL) put_unread(unread, address, behind, text + length, room - length);
    else if (symbol.function == NULL)
      snprintf(text + length, room - length, "%s0x%llx", behind,
               (unsigned long long)site->addresses[i]);
    else if (with_line && i == 0) symbol_text(&symbol, text, room);
    else snprintf(text + length, room - length, "%s%s", behind, symbol.function);
    length = strlen(text);
  }
  make_printable(text, room);
  return text;
}
