/* metric_families.h - the families of metrics, with what Prometheus is told of them. */
#ifndef HAKMEM_METRIC_FAMILIES_H
#define HAKMEM_METRIC_FAMILIES_H

enum family_id {
  INFO,
  PROCESSES,
  LEFT_OUT,
  RESIDENT,
  MEMORY,
  IN_USE,
  ROUNDING,
  ROUNDING_ERROR,
  CLASS_ROUNDING,
  PEAK,
  PEAK_ERROR,
  PEAK_AT,
  MAPPED,
  SWAPPED,
  GIVEN,
  CLASS,
  CACHE,
  HEAPS,
  NAMED,
  PARTIAL,
  ALLOCATED_BYTES,
  ALLOCATED_BLOCKS,
  SAMPLES,
  SAMPLES_DROPPED,
  SAMPLES_LIVE,
  SAMPLE_RATE,
  CALLS,
  CALLS_REFUSED,
  FAULTS,
  LIMIT,
  LIMIT_USED,
  RETURNABLE,
  START_TIME,
  FAMILIES
};

struct family {
  const char *name, *type, *unit, *help;
};

extern const struct family metric_families[FAMILIES];

#endif
