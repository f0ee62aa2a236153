/* core_end.c - see core_end.h: signals and places in words. */
#define _GNU_SOURCE
#include "core_end.h"

#include <signal.h>
#include <string.h>

#include "calls.h"
#include "cli.h"

/* Those that end a process with a core. */
static const struct {
  int signal;
  const char *name;
} dumping[] = {{SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},
               {SIGFPE, "SIGFPE"},   {SIGTRAP, "SIGTRAP"}, {SIGQUIT, "SIGQUIT"}, {SIGSYS, "SIGSYS"},
               {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}};

/* NULL: it is none of them. */
static const char *name_of(int signal) {
  for (size_t i = 0; i < sizeof dumping / sizeof dumping[0]; i++)
    if (dumping[i].signal == signal) return dumping[i].name;
  return NULL;
}

char *core_signal_name(int signal, char text[24]) {
  const char *name = name_of(signal);
  if (name != NULL) snprintf(text, 24, "%s", name);
  else snprintf(text, 24, "signal %d", signal);
  return text;
}

bool core_was_ended(const struct core *core) { return name_of(core->signal) != NULL; }

bool core_has_address(const struct core *core) {
  return core->has_info && core->code > 0 && core->code != SI_KERNEL &&
         (core->signal == SIGSEGV || core->signal == SIGBUS);
}

const char *core_code_text(const struct core *core) {
  if (!core->has_info || core->code <= 0) return "";
  if (core->signal == SIGSEGV && core->code == SI_KERNEL)
    return "by an address that no memory can have";
  if (core->signal == SIGSEGV)
    return core->code == SEGV_MAPERR   ? "nothing is mapped at the address"
           : core->code == SEGV_ACCERR ? "the memory does not allow it"
                                       : "";
  if (core->signal == SIGBUS)
    return core->code == BUS_ADRALN   ? "the address is not aligned"
           : core->code == BUS_ADRERR ? "behind the end of a mapped file"
                                      : "";
  if (core->signal == SIGFPE)
    return core->code == FPE_INTDIV ? "an integer was divided by zero" : "an error in arithmetic";
  return core->signal == SIGILL ? "an instruction that does not exist" : "";
}

static void name_mapping(const struct core *core, uint64_t address, char *text, size_t room) {
  const struct core_mapping *mapping = core_mapping_at(core, address);
  if (mapping == NULL) {
    snprintf(text, room, "0x%llx", (unsigned long long)address);
    return;
  }
  snprintf(text, room, "%s+0x%llx", base_name(core->files[mapping->file].path),
           (unsigned long long)address - mapping->start + mapping->offset);
}

char *core_place_text(const struct core_report *report, uint64_t address, unsigned nth, char *text,
                      size_t room) {
  const struct symbol innermost = symbols_find(report->symbols, address);
  const struct symbol *symbol = &innermost;
  for (; nth > 0 && symbol != NULL; nth--) symbol = symbol->caller;
  if (symbol == NULL) return NULL;
  if (symbol->function == NULL) {
    name_mapping(report->core, address, text, room);
  } else if (symbol->file != NULL) {
    symbol_text(symbol, text, room);
  } else {
    const struct core_mapping *mapping = core_mapping_at(report->core, address);
    const char *path = mapping != NULL ? report->core->files[mapping->file].path : "?";
    snprintf(text, room, "%s (%s)", symbol->function, base_name(path));
  }
  make_printable(text, room);
  return text;
}
