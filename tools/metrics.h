/* metrics.h - figures of processes as Prometheus reads them. */
#ifndef HAKMEM_METRICS_H
#define HAKMEM_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "container.h"
#include "limits.h"
#include "snapshot.h"

enum metrics_format {
  METRICS_OPEN, /* OpenMetrics 1.0 */
  METRICS_PLAIN, /* Prometheus' text format 0.0.4, which has no counters without _total, no info and no units */
};

/* Samples by family: those of all processes stand together, as the format demands. */
struct metrics;

/* Processes that have no figures, and why. */
struct left_out {
  unsigned late;   /* reading it took too long, or hung */
  unsigned time;   /* there was no time left for it: it comes first the next time */
  unsigned number; /* they are too many */
  unsigned
      unreadable; /* on hakmem or not, that may not be known; or what it says of itself makes no sense */
};

/** NULL: no memory. `classes`: with memory by size of blocks, which makes most of the samples. */
struct metrics *metrics_open(enum metrics_format format, bool classes);
/** Samples of a process. Its number, its program, and of a container its id and the pod's uid are their labels. */
void metrics_add(struct metrics *metrics, const struct snapshot *snapshot,
                 const struct remote *remote, const struct container *container,
                 const struct limits *limits);
void metrics_left_out(struct metrics *metrics, const struct left_out *left_out);
/** Writes it all and frees it; false: there was no memory for some of it. */
bool metrics_close(struct metrics *metrics, FILE *out);

#endif
