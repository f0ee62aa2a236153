/* stats_metrics.c - hakmem stats --format openmetrics: the text format 1.0 of OpenMetrics, as Prometheus scrapes it. */
#include "stats.h"

static void family(FILE *out, const char *name, const char *type, const char *unit,
                   const char *help) {
  fprintf(out, "# TYPE %s %s\n", name, type);
  if (unit != NULL) fprintf(out, "# UNIT %s %s\n", name, unit);
  fprintf(out, "# HELP %s %s\n", name, help);
}

static void label(FILE *out, const char *value) {
  for (; *value != 0; value++) {
    if (*value == '"' || *value == '\\') fputc('\\', out);
    fputc(*value < ' ' || *value > '~' ? '?' : *value, out);
  }
}

static void put_memory(const struct snapshot *snapshot, FILE *out) {
  struct part parts[PARTS];
  stats_parts(snapshot, parts);
  family(out, "hakmem_resident_bytes", "gauge", "bytes",
         "Resident memory of the process, as the kernel says.");
  fprintf(out, "hakmem_resident_bytes %llu\n", (unsigned long long)snapshot->resident);
  family(out, "hakmem_memory_bytes", "gauge", "bytes",
         "Resident memory by what it is; the parts add up to hakmem_resident_bytes.");
  for (int i = 0; i < PARTS; i++)
    fprintf(out, "hakmem_memory_bytes{part=\"%s\"} %.0f\n", parts[i].name, parts[i].bytes);
  family(out, "hakmem_in_use_bytes", "gauge", "bytes",
         "Bytes of all blocks that the program holds, resident or not.");
  fprintf(out, "hakmem_in_use_bytes %llu\n", (unsigned long long)snapshot->in_use);
  family(out, "hakmem_given_bytes", "gauge", "bytes",
         "Pages given back inside slabs and cached large blocks.");
  fprintf(out, "hakmem_given_bytes %llu\n", (unsigned long long)snapshot->given_bytes);
}

static void put_classes(const struct snapshot *snapshot, FILE *out) {
  family(out, "hakmem_class_bytes", "gauge", "bytes",
         "Resident memory of slabs by size of blocks and by what it is.");
  for (unsigned c = 0; c < CLASSES_MOST; c++) {
    const struct class_figures *figures = &snapshot->classes[c];
    const struct part parts[] = {{"live", "", "", figures->live},
                                 {"slack", "", "", figures->slack},
                                 {"caches", "", "", figures->caches},
                                 {"fragmentation", "", "", figures->fragmentation}};
    for (int i = 0; i < 4 && figures->slabs > 0; i++)
      fprintf(out, "hakmem_class_bytes{size=\"%u\",part=\"%s\"} %.0f\n", figures->size,
              parts[i].name, parts[i].bytes);
  }
}

static void put_heaps(const struct snapshot *snapshot, FILE *out) {
  uint64_t bins = 0, outgoing = 0, inbox = 0;
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    bins += snapshot->heaps[i].bins;
    outgoing += snapshot->heaps[i].outgoing;
    inbox += snapshot->heaps[i].inbox;
  }
  family(out, "hakmem_heaps", "gauge", NULL, "Heaps, each of one thread or of one that has ended.");
  fprintf(out, "hakmem_heaps{state=\"active\"} %zu\nhakmem_heaps{state=\"parked\"} %zu\n",
          snapshot->heaps_active, snapshot->heaps_parked);
  family(out, "hakmem_cache_bytes", "gauge", "bytes", "Free memory that is kept, by where it is.");
  fprintf(
      out,
      "hakmem_cache_bytes{where=\"bins\"} %llu\nhakmem_cache_bytes{where=\"outgoing\"} %llu\n"
      "hakmem_cache_bytes{where=\"inbox\"} %llu\nhakmem_cache_bytes{where=\"large\"} %.0f\n"
      "hakmem_cache_bytes{where=\"slices\"} %.0f\nhakmem_cache_bytes{where=\"warm_pool\"} %.0f\n",
      (unsigned long long)bins, (unsigned long long)outgoing, (unsigned long long)inbox,
      snapshot->spans_resident, snapshot->slices_resident, snapshot->warm_resident);
}

static void put_calls(const struct snapshot *snapshot, FILE *out) {
  const struct {
    const char *name;
    uint64_t count;
  } calls[] = {{"mmap", snapshot->os_mmap},
               {"munmap", snapshot->os_munmap},
               {"madvise", snapshot->os_madvise},
               {"mremap", snapshot->os_mremap},
               {"mprotect", snapshot->os_mprotect}};
  family(out, "hakmem_system_calls", "counter", NULL, "System calls for memory since the start.");
  for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++)
    fprintf(out, "hakmem_system_calls_total{call=\"%s\"} %llu\n", calls[i].name,
            (unsigned long long)calls[i].count);
  family(out, "hakmem_system_calls_refused", "counter", NULL, "Those that the kernel refused.");
  fprintf(out, "hakmem_system_calls_refused_total %llu\n", (unsigned long long)snapshot->os_failed);
}

void stats_metrics(const struct snapshot *snapshot, const struct remote *remote, FILE *out) {
  family(out, "hakmem", "info", NULL, "What runs in the process.");
  fprintf(out, "hakmem_info{release=\"");
  label(out, remote->layout.release);
  fprintf(out, "\",variant=\"");
  label(out, remote->layout.variant);
  fprintf(out, "\",program=\"");
  label(out, remote->program);
  fprintf(out, "\"} 1\n");
  put_memory(snapshot, out);
  put_classes(snapshot, out);
  put_heaps(snapshot, out);
  put_calls(snapshot, out);
  fprintf(out, "# EOF\n");
}
