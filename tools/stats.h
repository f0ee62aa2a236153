/* stats.h - how a snapshot is written. */
#ifndef HAKMEM_STATS_H
#define HAKMEM_STATS_H

#include <stdio.h>

#include "sampled.h"

/* A part of what is resident. */
struct part {
  const char *name; /* as in JSON */
  const char *text; /* as people read it */
  const char *what; /* one line */
  double bytes;
};
enum { PARTS = 6 };

/** live, slack, caches, fragmentation, metadata, not ours. */
void stats_parts(const struct snapshot *snapshot, struct part parts[PARTS]);
/** "resident 1 = live 1 + ...". */
void stats_equation(const struct snapshot *snapshot, char *text, size_t room);
/** What is free or lost in pages of a class, and resident. */
double stats_waste(const struct class_figures *figures);
/** Numbers of the classes that have something resident or counted, the largest waste first; how many. */
unsigned stats_classes_by_waste(const struct snapshot *snapshot, unsigned classes[CLASSES_MOST]);
/** Sorts the heaps, what keeps most first. */
void stats_sort_heaps(struct snapshot *snapshot);
/** Bytes that a heap keeps. */
uint64_t stats_kept(const struct heap_figures *figures);
/** Which thread a heap belongs to: number and name, "in use" where that is not known, "ended". Returns `text`. */
char *stats_thread(const struct heap_figures *heap, char text[40]);
/** "12.3 MiB". Returns `text`. */
char *stats_bytes(double bytes, char text[16]);
/** "90 s", "5 min", "17 h". Returns `text`. */
char *stats_age(uint64_t ms, char text[32]);

/** A line for each part, and one for each heap. */
/** `sampled`: NULL where nothing of it is known, as in the next ones. */
void stats_print_parts(const struct snapshot *snapshot, const struct sampled *sampled, FILE *out);
void stats_print_heaps(const struct snapshot *snapshot, FILE *out);

void stats_text(const struct snapshot *snapshot, const struct sampled *sampled,
                const struct remote *remote, FILE *out);
void stats_json(const struct snapshot *snapshot, const struct sampled *sampled,
                const struct remote *remote, FILE *out);
/** As OpenMetrics 1.0. */
void stats_metrics(const struct snapshot *snapshot, const struct sampled *sampled,
                   const struct remote *remote, FILE *out);
/** As Prometheus' text format 0.0.4. */
void stats_metrics_plain(const struct snapshot *snapshot, const struct sampled *sampled,
                         const struct remote *remote, FILE *out);

/** What is to be said of the moment that the figures are of: "", or words that begin with "; ". */
const char *stats_moment(const struct snapshot *snapshot, const struct remote *remote);

/** "" for one, "s" for all others. */
const char *stats_plural(uint64_t count);

/** Lists the processes that run on hakmem; an exit code. */
int stats_list(bool json, FILE *out);

#endif
