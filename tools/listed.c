/* listed.c - see listed.h. */
#define _GNU_SOURCE
#include "listed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "container.h"
#include "json_writer.h"
#include "snapshot.h"
#include "stats.h"

/* Reading a process ends after so long, and that of all together after ten times as long: a process may lie without an end. What is
 * not known then is '-'. */
enum { EACH_MS = 1000, ALL_MS = 10 * EACH_MS };

struct row {
  int pid;
  double resident; /* 0: not known, it has ended */
  bool told;       /* what follows was read */
  bool partial, counted;
  double live, waste;
  struct container container;
  char release[80], variant[32], program[64], call[128];
};

struct rows {
  struct row *all;
  size_t count;
};

static double resident_of(int pid) {
  char path[64];
  unsigned long long pages = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  if (fscanf(file, "%*s %llu", &pages) != 1) pages = 0;
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* What was called, with blanks between the words. */
static void read_call(int pid, char *text, size_t room) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
  FILE *file = fopen(path, "re");
  size_t length = file != NULL ? fread(text, 1, room - 1, file) : 0;
  if (file != NULL) fclose(file);
  while (length > 0 && text[length - 1] == 0) length--;
  for (size_t i = 0; i < length; i++)
    if (text[i] == 0) text[i] = ' ';
  text[length] = 0;
  make_printable(text, room);
}

/* Figures by one snapshot, if there is time for it. */
static void read_figures(struct row *row, struct snapshot *snapshot, const struct remote *remote,
                         uint64_t started_ms) {
  uint64_t gone = now_ms() - started_ms;
  uint64_t left = gone < ALL_MS ? ALL_MS - gone : 0;
  if (left == 0 ||
      snapshot_take_within(snapshot, remote, left < EACH_MS ? left : EACH_MS) != REMOTE_THERE)
    return;
  row->resident = (double)snapshot->resident;
  row->told = !snapshot->late;
  row->partial = snapshot->partial;
  row->counted = snapshot->counted;
  row->live = snapshot->live;
  row->waste = snapshot->slack + snapshot->caches + snapshot->fragmentation + snapshot->metadata;
  snapshot_free(snapshot);
}

/* False: it is not on hakmem. */
static bool fill(struct row *row, struct snapshot *snapshot, struct remote *remote,
                 uint64_t started_ms) {
  char number[16];
  snprintf(number, sizeof number, "%d", row->pid);
  bool opened = remote_open(remote, number) == 0;
  row->resident = resident_of(row->pid);
  if (!opened && !remote_is_refused(remote) && row->resident > 0) return false;
  if (row->resident > 0) {
    container_read(&row->container, row->pid);
    read_call(row->pid, row->call, sizeof row->call);
    snprintf(row->program, sizeof row->program, "%s", remote->program);
  }
  if (!opened) return true;
  snprintf(row->release, sizeof row->release, "%s", remote->layout.release);
  snprintf(row->variant, sizeof row->variant, "%s", remote->layout.variant);
  read_figures(row, snapshot, remote, started_ms);
  return true;
}

static int by_resident(const void *a, const void *b) {
  const struct row *left = a, *right = b;
  if (left->resident != right->resident) return left->resident < right->resident ? 1 : -1;
  return left->pid < right->pid ? -1 : left->pid > right->pid;
}

/* Then free. */
static struct rows read_rows(const struct processes *processes) {
  struct rows rows = {calloc(processes->count + 1, sizeof *rows.all), 0};
  struct remote *remote = calloc(1, sizeof *remote);
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  FILE *nowhere = fopen("/dev/null", "we");
  uint64_t started_ms = now_ms();
  bool ok = rows.all != NULL && remote != NULL && snapshot != NULL && nowhere != NULL;
  if (!ok) complain("out of memory");
  if (ok) collect_complaints(nowhere);
  for (size_t i = 0; i < processes->count && ok; i++) {
    struct row *row = &rows.all[rows.count];
    *row = (struct row){.pid = processes->all[i]};
    if (fill(row, snapshot, remote, started_ms)) rows.count++;
  }
  if (ok) collect_complaints(NULL);
  if (rows.count > 0) qsort(rows.all, rows.count, sizeof *rows.all, by_resident);
  if (nowhere != NULL) fclose(nowhere);
  free(snapshot);
  free(remote);
  return rows;
}

/* --- text ------------------------------------------------------------------------------------------------------ */

static const char *figure(bool known, double bytes, char text[16]) {
  return known ? stats_bytes(bytes, text) : "-";
}

static void print_row(const struct row *row, FILE *out) {
  enum { CALL = 60 };
  char resident[16], live[16], waste[16], container[16], hakmem[128] = "-";
  if (row->release[0] != 0) snprintf(hakmem, sizeof hakmem, "%s (%s)", row->release, row->variant);
  const char *program = row->call[0] != 0 ? row->call : row->program;
  fprintf(out, "%8d %10s %10s %10s  %-12s  %-20s %.*s\n", row->pid,
          figure(row->resident > 0, row->resident, resident), figure(row->told, row->live, live),
          figure(row->told, row->waste, waste), container_short(&row->container, container), hakmem,
          CALL, program[0] != 0 ? program : "-");
}

void list_processes(const struct processes *processes, FILE *out) {
  struct rows rows = read_rows(processes);
  fprintf(out, "%8s %10s %10s %10s  %-12s  %-20s %s\n", "PID", "resident", "live", "waste",
          "container", "hakmem", "program");
  for (size_t i = 0; i < rows.count; i++) print_row(&rows.all[i], out);
  if (processes->unread > 0)
    fprintf(out, "and %zu process%s that this user may not read, on hakmem or not\n",
            processes->unread, processes->unread == 1 ? "" : "es");
  free(rows.all);
}

/* --- JSON ------------------------------------------------------------------------------------------------------ */

static void put_text(struct json *json, const char *name, const char *value) {
  if (value[0] != 0) json_text(json, name, value);
}

static void put_row(struct json *json, const struct row *row) {
  json_open_group(json, NULL, '{');
  json_number(json, "pid", (uint64_t)row->pid);
  put_text(json, "program", row->program);
  put_text(json, "command", row->call);
  put_text(json, "container", row->container.id);
  put_text(json, "pod", row->container.pod);
  put_text(json, "hakmem", row->release);
  put_text(json, "variant", row->variant);
  if (row->resident > 0) json_bytes(json, "resident", row->resident);
  if (row->told) {
    json_bytes(json, "live", row->live);
    json_bytes(json, "waste", row->waste);
    json_boolean(json, "partial", row->partial);
    json_boolean(json, "counted", row->counted);
  }
  json_close_group(json, '}');
}

void list_processes_json(const struct processes *processes, FILE *out) {
  struct rows rows = read_rows(processes);
  struct json json = {.out = out};
  json_open_group(&json, NULL, '{');
  json_number(&json, "version", 1);
  json_open_group(&json, "processes", '[');
  for (size_t i = 0; i < rows.count; i++) put_row(&json, &rows.all[i]);
  json_close_group(&json, ']');
  json_number(&json, "unread", processes->unread);
  json_close_group(&json, '}');
  fputc('\n', out);
  free(rows.all);
}
