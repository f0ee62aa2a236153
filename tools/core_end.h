/* core_end.h - how a process ended, by its core: what the parts of hakmem core share. */
#ifndef HAKMEM_CORE_END_H
#define HAKMEM_CORE_END_H

#include "core.h"
#include "prof.h"
#include "symbols.h"
#include "where.h"

enum { CALLS_KEPT = 32, LINES_KEPT = 16, THREADS_SHOWN = 12, LINE_ROOM = 512, POINTS_KEPT = 12 };

/* Lines that hakmem wrote. */
struct core_said {
  unsigned count;
  char lines[LINES_KEPT][LINE_ROOM];
};

/* An address that is worth a word. */
struct core_point {
  const char *of; /* a register; NULL: of the signal, or of a line that hakmem wrote */
  struct where where;
};

struct core_report {
  struct core *core;
  struct symbols *symbols;
  const struct remote
      *remote; /* NULL: hakmem is not found in it, and of what follows there is nothing */
  const struct snapshot *snapshot; /* NULL: there is none */
  const struct report *places;
  const struct where_reader *reader;
  struct core_point points[POINTS_KEPT];
  unsigned point_count;
  struct core_said said;
  uint64_t calls[CALLS_KEPT]; /* of the thread that ended it */
  unsigned call_count;
};

/** "SIGSEGV"; a number where it has no name. Returns `text`. */
char *core_signal_name(int signal, char text[24]);
/** Did a signal end it? Those of a debugger, by which gcore stops it, do not. */
bool core_was_ended(const struct core *core);
/** Does the signal tell an address? Of one that no memory can have, x86 tells none. */
bool core_has_address(const struct core *core);
/** What the code of a signal says, as "nothing is mapped at the address"; "": nothing. */
const char *core_code_text(const struct core *core);
/** "serve (server.c:12)", "libc.so.6+0x12", or the address: of the `nth` function that the code there is of, the innermost first, which
 * the compiler has inlined. Returns `text`; NULL: there are fewer. */
char *core_place_text(const struct core_report *report, uint64_t address, unsigned nth, char *text,
                      size_t room);
/** Looks up the address of the fault, those in lines that hakmem wrote, and blocks that registers point into. */
void core_find_points(struct core_report *report);
/** Finds lines of hakmem's in the stack of the thread that ended it. */
void core_find_said(const struct core *core, struct core_said *said);

void core_text(const struct core_report *report, FILE *out);
void core_print_json(const struct core_report *report, FILE *out);

#endif
