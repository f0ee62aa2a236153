/* trace_record.h - runs a program and records it. */
#ifndef HAKMEM_TRACE_RECORD_H
#define HAKMEM_TRACE_RECORD_H

#include "library.h"
#include "program.h"

struct trace_order {
  const struct library *library;
  const struct program *program;
  char **argv; /* of the program */
  const char *output;
  bool force;  /* write over an existing file */
  bool follow; /* record the processes that it starts, too */
};

/** Runs the program on the library and writes what it allocates to `output`. Returns the program's exit code, or ends by the
 * program's signal; complains and returns an exit code when the program could not be started. */
int trace_record(const struct trace_order *order);

#endif
