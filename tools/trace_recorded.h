/* trace_recorded.h - one recorded process: its region of the memory, its file, and what is said of it at the end. */
#ifndef HAKMEM_TRACE_RECORDED_H
#define HAKMEM_TRACE_RECORDED_H

#include "trace_describe.h"
#include "trace_memory.h"

struct recorded {
  struct recorded *next;
  uint32_t seat;
  pid_t pid;
  bool is_first; /* the program that the user named */
  struct trace_descent descent;
  uint64_t start; /* trace_process_start of it; 0: not known */
  bool ended;     /* and its status is known, if it can be */
  int status;     /* as a shell shows it; -1: not known */
  char *path;
  char *program;
  struct trace_times times;
  struct trace_memory *memory;
  struct trace_file file;

  /* What is said of it, set at its end. */
  uint64_t events, lost;
  uint32_t threads, images;
  bool failed;
};

/** A process that has a seat; its region is mapped, it has no file yet. NULL: errno says why. */
struct recorded *recorded_make(int memory_file, uint32_t seat);

/** Writes what the file begins with; the process executes a program, the first one or another. `command`: the program with
 * its arguments, NULL-terminated. */
void recorded_begin(struct recorded *process, char **command);

/** Writes what is full; with `all`, since the process has ended, everything. */
void recorded_take(struct recorded *process, bool all);

/** Writes the end, closes the file and unmaps the region. `started`: processes, negative for an unknown number. */
void recorded_end(struct recorded *process, int64_t started);

/** One line: what was recorded. `named`: with the process and its program. */
void recorded_say(const struct recorded *process, bool named);

/** Further lines: what is missing. */
void recorded_say_what_is_missing(const struct recorded *process, bool named);

#endif
