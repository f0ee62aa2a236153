/* metrics.h - figures of processes as Prometheus reads them. */
#ifndef HAKMEM_METRICS_H
#define HAKMEM_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "snapshot.h"

enum metrics_format {
  METRICS_OPEN, /* OpenMetrics 1.0 */
  METRICS_PLAIN, /* Prometheus' text format 0.0.4, which has no counters without _total, no info and no units */
};

/* Samples by family: those of all processes stand together, as the format demands. */
struct metrics;

/** NULL: no memory. */
struct metrics *metrics_open(enum metrics_format format);
/** Samples of a process, each with its number and its program as labels. */
void metrics_add(struct metrics *metrics, const struct snapshot *snapshot,
                 const struct remote *remote);
/** Writes it all and frees it; false: there was no memory for some of it. */
bool metrics_close(struct metrics *metrics, FILE *out);

#endif
