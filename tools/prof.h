/* prof.h - what the parts of hakmem prof share. */
#ifndef HAKMEM_PROF_H
#define HAKMEM_PROF_H

#include <stdio.h>

#include "peak.h"
#include "places.h"

enum prof_view { VIEW_LIVE, VIEW_ALLOCATED, VIEW_GROWTH, VIEW_LEAKS, VIEW_PEAK };
enum prof_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_FOLDED, FORMAT_PPROF, FORMAT_HTML };
enum prof_by { BY_STACKS, BY_FUNCTION, BY_FILE, BY_LIBRARY, BY_THREAD, BY_SIZE, BY_AGE };

/* Where a report is written to. */
struct prof_output {
  const char *path;
  int fd;
  bool made, written; /* it is a new file; there is a report in it */
};

struct prof_order {
  enum prof_view view;
  enum prof_format format;
  enum prof_by by;
  struct prof_output *output; /* NULL: standard output */
  long seconds, sites;
  long long rate; /* -1: stays */
  bool program;   /* it is run; growth counts from so many seconds after its start on */
};

/* A place with its figures in this view. */
struct row {
  const struct place *place;
  double bytes, blocks; /* of a difference: what there is more */
  double before;        /* bytes of the first one of two */
  /* Of VIEW_LEAKS: see prof_leaks.c. */
  unsigned quarters;
  bool suspect;
};

/* Places or live samples that have something in common. */
struct group {
  char *name; /* to be freed */
  double bytes, blocks;
  uint64_t samples;
  uint64_t least, most; /* of BY_SIZE: bytes; of BY_AGE: milliseconds, `most` is outside */
};

struct report {
  const struct prof_order *order;
  struct places *places;
  bool difference;  /* of two that were compared */
  char *head;       /* lines that stand before the table */
  struct row *rows; /* what has something to show, the largest first */
  size_t count;
  struct group *groups; /* the largest first; none of BY_STACKS */
  size_t group_count;
  /* Of a process. */
  int pid;
  char program[64];
  uint64_t live;  /* bytes */
  double covered; /* of these, by samples */
  double sum;
  double less; /* of VIEW_GROWTH: what other places have less, as a positive number */
  unsigned suspects;
  struct peak peak; /* of VIEW_PEAK */
};

/** Makes a report of a process that is there; 0, or an exit code after a complaint. In each case prof_forget may follow. */
int prof_take(struct report *report, const struct prof_order *order, const struct remote *remote,
              const struct profile *profile);
void prof_forget(struct report *report);
/** Runs a program and reports what lives when it ends. Returns its exit code, or ends as it ended. */
int prof_program(const struct prof_order *order, char **argv);
/** A table or lines that compare two files; an exit code. */
int prof_diff(const struct prof_order *order, const char *before, const char *after);
/** Opens the file and leaves what is in it, so that a wrong name is told before anybody waits; false after a complaint. */
bool prof_open(struct prof_output *output, const char *path);
/** Removes one that was made for nothing. */
void prof_close(struct prof_output *output);
/** Into the file that was asked for; 0, or an exit code after a complaint. */
int prof_write(const struct report *report);
/** Fills in the rows of a report that has the rest; false: out of memory. */
bool prof_rows(struct report *report);
void prof_table(const struct report *report, FILE *out);
/** Finds out which rows are suspected of leaking, and sorts these first. */
void prof_leaks(struct report *report);
/** A place's ages: "0 s to 5 min old, ..." and a line with what each quarter left. */
void prof_leak_ages(const struct report *report, const struct row *row, FILE *out);
/** "main;f;g 123": outermost first, bytes. What Brendan Gregg's flamegraph.pl, speedscope and others read. */
void prof_folded(const struct report *report, FILE *out);
/** A flame graph for a browser. */
void prof_html(const struct report *report, FILE *out);

#endif
