/* trace_follow.h - hakmem trace record --follow: a trace for each process that the program starts. */
#ifndef HAKMEM_TRACE_FOLLOW_H
#define HAKMEM_TRACE_FOLLOW_H

#include <stdio.h>

#include "trace_recorded.h"

struct follow {
  const char *output;                  /* of the first process; the others' names are made of it */
  const char *library;                 /* the name of its file */
  int file;                            /* the memory */
  struct trace_common *common;         /* in it */
  struct recorded *first;              /* the program */
  int wait_status;                     /* of the program, once it has ended */
  bool any_failed;                     /* some process has no trace, or not all of it */
  struct recorded *seats[TRACE_SEATS]; /* those that are recorded now */
  struct recorded *last;               /* of all, in the order in which they began */
  struct follow_seen *seen;            /* processes that have no seat, at the last look */
  size_t seen_count;
  FILE *notes; /* lines for the end, each with a 0 behind it; NULL: none */
  char *notes_text;
  size_t notes_size;
};

/** Records until all processes have ended that can be recorded, or a signal asks for the end. */
void follow_processes(struct follow *follow);

/** A line for each process, and what else there is to say. */
void follow_say(const struct follow *follow);

#endif
