/* listed.c - see listed.h. */
#define _GNU_SOURCE
#include "listed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "json_writer.h"
#include "profile.h"
#include "stats.h"

/* Reading a process ends after so long, and that of all together after ten times as long: a process may lie without an end. What is
 * not known then is '-'. */
enum { EACH_MS = 1000, ALL_MS = 10 * EACH_MS };

struct rows {
  struct listed *all;
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

/* Seconds since the process began. */
static double age_of(const struct remote *remote) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9 -
         (double)remote->birth / (double)sysconf(_SC_CLK_TCK);
}

/* Since its start. */
static void read_rate(struct listed *row, const struct remote *remote) {
  double age = age_of(remote);
  row->allocated = (struct allocated){.ms = now_ms()};
  if (!profile_allocated(remote, &row->allocated.bytes)) row->allocated.ms = 0;
  else row->rate = age > 0 ? row->allocated.bytes / age : 0;
  row->newer = row->older = row->allocated;
}

void listed_since(struct listed *row, const struct listed *before) {
  enum { LEAST_MS = 500, STEP_MS = 10000 };
  if (row->allocated.ms == 0 || before->allocated.ms == 0 ||
      row->allocated.bytes < before->allocated.bytes)
    return;
  row->newer = before->newer;
  row->older = before->older;
  /* Samples are few: a second tells little of a program that allocates little. */
  if (row->allocated.ms - row->newer.ms >= STEP_MS) {
    row->older = row->newer;
    row->newer = row->allocated;
  }
  uint64_t ms = row->allocated.ms - row->older.ms;
  if (ms >= LEAST_MS) row->rate = (row->allocated.bytes - row->older.bytes) * 1000 / (double)ms;
}

void listed_read(struct listed *row, struct snapshot *snapshot, const struct remote *remote,
                 uint64_t ms) {
  row->pid = remote->pid;
  row->rate = -1;
  row->resident = resident_of(row->pid);
  if (row->resident > 0) {
    container_read(&row->container, row->pid);
    read_call(row->pid, row->call, sizeof row->call);
    snprintf(row->program, sizeof row->program, "%s", remote->program);
  }
  snprintf(row->release, sizeof row->release, "%s", remote->layout.release);
  snprintf(row->variant, sizeof row->variant, "%s", remote->layout.variant);
  if (ms == 0 || snapshot_take_within(snapshot, remote, ms) != REMOTE_THERE) return;
  row->resident = (double)snapshot->resident;
  row->told = !snapshot->late;
  row->partial = snapshot->partial;
  row->counted = snapshot->counted;
  row->live = snapshot->live;
  row->waste = snapshot->slack + snapshot->caches + snapshot->fragmentation + snapshot->metadata;
  snapshot_free(snapshot);
  read_rate(row, remote);
}

/* False: it is not on hakmem. */
static bool fill(struct listed *row, struct snapshot *snapshot, struct remote *remote,
                 uint64_t started_ms) {
  char number[16];
  uint64_t gone = now_ms() - started_ms, left = gone < ALL_MS ? ALL_MS - gone : 0;
  snprintf(number, sizeof number, "%d", row->pid);
  bool opened = remote_open(remote, number) == 0;
  if (!opened && !remote_is_refused(remote) && resident_of(row->pid) > 0) return false;
  if (!opened) { /* what may be said of it without a look into its memory */
    left = 0;
    remote->pid = row->pid;
    memset(&remote->layout, 0, sizeof remote->layout);
  }
  listed_read(row, snapshot, remote, left < EACH_MS ? left : EACH_MS);
  return true;
}

static int by_resident(const void *a, const void *b) {
  const struct listed *left = a, *right = b;
  if (left->resident != right->resident) return left->resident < right->resident ? 1 : -1;
  return left->pid < right->pid ? -1 : left->pid > right->pid;
}

void listed_sort(struct listed *rows, size_t count) {
  if (count > 0) qsort(rows, count, sizeof *rows, by_resident);
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
    struct listed *row = &rows.all[rows.count];
    *row = (struct listed){.pid = processes->all[i]};
    if (fill(row, snapshot, remote, started_ms)) rows.count++;
  }
  if (ok) collect_complaints(NULL);
  listed_sort(rows.all, rows.count);
  if (nowhere != NULL) fclose(nowhere);
  free(snapshot);
  free(remote);
  return rows;
}

/* --- text ------------------------------------------------------------------------------------------------------ */

static const char *figure(bool known, double bytes, char text[16]) {
  return known ? stats_bytes(bytes, text) : "-";
}

char *listed_line(const struct listed *row, char *text, size_t room) {
  char resident[16], live[16], waste[16], rate[16], container[16], hakmem[128] = "-";
  if (row == NULL) {
    snprintf(text, room, "%8s %10s %10s %10s %10s  %-12s  %-20s %s", "PID", "resident", "live",
             "waste", "alloc/s", "container", "hakmem", "program");
    return text;
  }
  if (row->release[0] != 0) snprintf(hakmem, sizeof hakmem, "%s (%s)", row->release, row->variant);
  const char *program = row->call[0] != 0 ? row->call : row->program;
  snprintf(text, room, "%8d %10s %10s %10s %10s  %-12s  %-20s %s", row->pid,
           figure(row->resident > 0, row->resident, resident), figure(row->told, row->live, live),
           figure(row->told, row->waste, waste), figure(row->rate >= 0, row->rate, rate),
           container_short(&row->container, container), hakmem, program[0] != 0 ? program : "-");
  return text;
}

void list_processes(const struct processes *processes, FILE *out) {
  struct rows rows = read_rows(processes);
  enum { WIDTH = 150 };
  char text[512];
  fprintf(out, "%s\n", listed_line(NULL, text, sizeof text));
  for (size_t i = 0; i < rows.count; i++)
    fprintf(out, "%.*s\n", WIDTH, listed_line(&rows.all[i], text, sizeof text));
  if (processes->unread > 0)
    fprintf(out, "and %zu process%s that this user may not read, on hakmem or not\n",
            processes->unread, processes->unread == 1 ? "" : "es");
  free(rows.all);
}

/* --- JSON ------------------------------------------------------------------------------------------------------ */

static void put_text(struct json *json, const char *name, const char *value) {
  if (value[0] != 0) json_text(json, name, value);
}

static void put_row(struct json *json, const struct listed *row) {
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
    if (row->rate >= 0) {
      json_bytes(json, "allocated", row->allocated.bytes);
      json_bytes(json, "allocated_a_second", row->rate);
    }
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
