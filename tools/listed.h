/* listed.h - processes on hakmem, one a line. */
#ifndef HAKMEM_LISTED_H
#define HAKMEM_LISTED_H

#include <stdio.h>

#include "container.h"
#include "processes.h"
#include "snapshot.h"

/* What a process has allocated by a moment, as its samples tell. */
struct allocated {
  double bytes;
  uint64_t ms; /* of now_ms(); 0: not known */
};

struct listed {
  int pid;
  double resident; /* 0: not known, it has ended */
  bool told;       /* live and waste were read */
  bool partial, counted;
  double live, waste;
  double
      rate; /* bytes allocated a second, since the start unless somebody has looked before; below 0: not known */
  struct allocated allocated, newer,
      older; /* now; about 10 and 20 seconds before, if somebody has looked then */
  struct container container;
  char release[80], variant[32], program[64], call[128];
};

/** Of a process that could be opened, unless it cannot be read within so many milliseconds. */
void listed_read(struct listed *row, struct snapshot *snapshot, const struct remote *remote,
                 uint64_t ms);
/** Makes `rate` that of the time since the same process was looked at. */
void listed_since(struct listed *row, const struct listed *before);
/** Sorts them, the largest first. */
void listed_sort(struct listed *rows, size_t count);
/** Writes a row as the list has it, or with NULL its heading. Returns `text`. */
char *listed_line(const struct listed *row, char *text, size_t room);

/** A line for each, the largest first: number, resident memory, what of it lives and what is waste, what it allocates a second, container, hakmem, and what was
 * called. What is not known of one is '-'; one that is not on hakmem has no line. */
void list_processes(const struct processes *processes, FILE *out);
/** The same as JSON, one object on one line. */
void list_processes_json(const struct processes *processes, FILE *out);

#endif
