/* calls.c - see calls.h. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { CALLS_MOST = 4 };

/* "server+0x12 (build-id 3a)". */
static void put_unread(const struct unread *unread, uint64_t address, char *text, size_t room) {
  bool has_id = unread->build_id[0] != 0;
  snprintf(text, room, "%s+0x%llx%s%s%s", base_name(unread->name),
           (unsigned long long)(address - unread->base), has_id ? " (build-id " : "",
           unread->build_id, has_id ? ")" : "");
}

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* As the linker's names begin: "St" is std::, and "Sa" to "Ss" are its most frequent members. An inlined function may have no name for
 * the linker. */
static bool is_of_cxx(const char *linkage) {
  if (!begins(linkage, "_Z")) return begins(linkage, "std::") || begins(linkage, "__gnu_cxx::");
  linkage += 2;
  if (*linkage == 'N') linkage++;
  if (*linkage == 'K') linkage++;
  return (linkage[0] == 'S' && linkage[1] != 0 && strchr("tabsiod", linkage[1]) != NULL) ||
         begins(linkage, "9__gnu_cxx");
}

/* Rust's library is in the program, and most of it in its functions. These are the paths that its makers have given it. */
static bool is_of_rust(const char *source) {
  return begins(source, "/rustc/") || begins(source, "/rust/deps/") ||
         strstr(source, "/rustlib/src/rust/library/") != NULL;
}

/* libc's headers have checked copies, for example. */
bool is_of_std(const char *linkage, const char *source, bool inlined) {
  if (linkage != NULL && is_of_cxx(linkage)) return true;
  return source != NULL && (is_of_rust(source) || (inlined && strstr(source, "/bits/") != NULL));
}

char *symbol_text(const struct symbol *symbol, char *text, size_t room) {
  const char *file = symbol->file != NULL ? base_name(symbol->file) : NULL;
  if (file == NULL) snprintf(text, room, "%s", symbol->function);
  else if (symbol->line == 0) snprintf(text, room, "%s (%s)", symbol->function, file);
  else snprintf(text, room, "%s (%s:%d)", symbol->function, file, symbol->line);
  make_printable(text, room);
  return text;
}

char *symbol_texts(const struct symbol *symbol, char *text, size_t room) {
  size_t length = 0;
  symbol_text(symbol, text, room);
  while ((symbol = symbol->caller) != NULL && symbol->function != NULL) {
    length += strlen(text + length);
    length += (size_t)snprintf(text + length, room - length, " < ");
    if (length >= room) break;
    symbol_text(symbol, text + length, room - length);
  }
  return text;
}

/* A call without a name is told by its address. */
static void put_call(const struct symbol *symbol, uint64_t address, struct symbols *symbols,
                     bool with_line, char *text, size_t room) {
  const struct unread *unread =
      symbol->function == NULL ? symbols_unread_at(symbols, address) : NULL;
  if (unread != NULL) put_unread(unread, address, text, room);
  else if (symbol->function == NULL)
    snprintf(text, room, "0x%llx", (unsigned long long)address + 1);
  else if (with_line) symbol_text(symbol, text, room);
  else snprintf(text, room, "%s", symbol->function);
}

char *calls_text(const struct site *site, struct symbols *symbols, bool with_line, char *text,
                 size_t room) {
  size_t length = 0;
  unsigned shown = 0, depth = site != NULL ? site->depth : 0;
  snprintf(text, room, "%s", depth == 0 ? "(stack unknown)" : "");
  for (unsigned i = 0; i < depth; i++) {
    uint64_t address = site->addresses[i] - 1;
    const struct symbol innermost = symbols_find(symbols, address);
    for (const struct symbol *symbol = &innermost; symbol != NULL; symbol = symbol->caller) {
      /* A line has room for few: what the program has called counts, not what that consists of. */
      if (symbol->caller != NULL && is_of_std(symbol->linkage, symbol->source, true)) continue;
      if (shown == CALLS_MOST) break;
      if (shown > 0) length += (size_t)snprintf(text + length, room - length, " < ");
      if (length >= room) break;
      put_call(symbol, address, symbols, with_line && shown == 0, text + length, room - length);
      length += strlen(text + length);
      shown++;
    }
    if (shown == CALLS_MOST || length >= room) break;
  }
  make_printable(text, room);
  return text;
}
