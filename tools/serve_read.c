/* serve_read.c - see serve.h: what the children of hakmem serve write, and then end. They alone read processes. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "pprof.h"
#include "processes.h"
#include "serve.h"

const char metrics_path[] = "/metrics";
const char profile_path[] = "/debug/pprof/heap";
const char allocs_path[] = "/debug/pprof/allocs"; /* where Pyroscope and Parca look for it */

/* --- /metrics --------------------------------------------------------------------------------------------- */

/* Who was not read in time comes last, then who was read last: so that all have their turn where there is not time enough. */
static int by_turn(const void *a, const void *b) {
  const struct served_process *left = *(struct served_process *const *)a,
                              *right = *(struct served_process *const *)b;
  if (left->late != right->late) return left->late ? 1 : -1;
  if (left->tried_ms != right->tried_ms) return left->tried_ms < right->tried_ms ? -1 : 1;
  return left->remote.pid < right->remote.pid ? -1 : 1;
}

/* False: there are no figures of it. */
static bool add_process(struct metrics *metrics, struct served *served,
                        struct served_process *process, struct left_out *left_out) {
  static struct snapshot copy; /* too large for the stack */
  struct snapshot *snapshot = &copy;
  struct remote *remote = &process->remote;
  served_reads(served, remote->pid);
  process->tried_ms = now_ms();
  enum remote_state state = snapshot_take_within(snapshot, remote, served->each_ms);
  while (state != REMOTE_THERE && remote_follow(remote))
    state = snapshot_take_within(snapshot, remote, served->each_ms);
  bool read = served->all ? state == REMOTE_THERE : remote_report(remote, state) == 0;
  process->late = read && snapshot->late;
  if (process->late) left_out->late++;
  if (read && !process->late) {
    struct limits limits;
    limits_read(&limits, &process->limit, remote->pid);
    metrics_add(metrics, snapshot, remote, &process->container, &limits);
  } else if (served->all && state != REMOTE_ENDED) left_out->unreadable++;
  if (served->all && !read) served_drop(process);
  if (read) snapshot_free(snapshot);
  served_reads(served, 0);
  return read && !process->late;
}

/* How many of the processes could be read. */
static size_t add_all(struct metrics *metrics, struct served *served, struct left_out *left_out,
                      uint64_t late_ms) {
  size_t count = 0, read = 0, room = served_count(served);
  struct served_process *process = NULL, **turns = calloc(room + 1, sizeof(void *));
  while (turns != NULL && count < room && (process = served_next(served, process)) != NULL)
    turns[count++] = process;
  if (count > 0) qsort(turns, count, sizeof(void *), by_turn);
  for (size_t i = 0; i < count; i++)
    if (now_ms() > late_ms) left_out->time++;
    else if (add_process(metrics, served, turns[i], left_out)) read++;
  free(turns);
  return read;
}

static enum made metrics_page(struct served *served, bool open, FILE *out, FILE *problems) {
  struct left_out left_out = {0};
  uint64_t late_ms = now_ms() + served->deadline_ms;
  struct metrics *metrics = metrics_open(open ? METRICS_OPEN : METRICS_PLAIN, served->classes);
  if (metrics == NULL) return MADE_NO_MEMORY;
  served_refresh(served, &left_out, late_ms);
  size_t read = add_all(metrics, served, &left_out, late_ms);
  metrics_left_out(metrics, &left_out);
  if (!metrics_close(metrics, out)) return MADE_NO_MEMORY;
  /* Nobody of that name is no failure, unless there is a reason. */
  if (read > 0 || served->all || (served->name != NULL && ftell(problems) == 0)) return MADE;
  if (ftell(problems) == 0) complain("there is no process any more");
  return MADE_NOT;
}

/* --- / ---------------------------------------------------------------------------------------------------- */

static void write_escaped(const char *text, FILE *out) {
  for (; *text != 0; text++)
    if (strchr("<>&\"'", *text) != NULL) fprintf(out, "&#%d;", *text);
    else fputc(*text, out);
}

static enum made index_page(struct served *served, FILE *out) {
  struct left_out left_out = {0};
  struct served_process *process = NULL;
  served_refresh(served, &left_out, now_ms() + served->deadline_ms);
  fprintf(out,
          "<!DOCTYPE html>\n<html lang=\"en\"><title>hakmem serve</title>\n<h1>hakmem serve</h1>\n"
          "<p><a href=\"%s\">%s</a>: where the memory is, for Prometheus\n<ul>\n",
          metrics_path, metrics_path);
  while ((process = served_next(served, process)) != NULL) {
    int pid = process->remote.pid;
    fprintf(out, "<li>process %d, ", pid);
    write_escaped(process->remote.program, out);
    if (pprof_is_built())
      fprintf(out, ": <a href=\"%s?pid=%d\">%s?pid=%d</a>, a heap profile for pprof", profile_path,
              pid, profile_path, pid);
    fputc('\n', out);
  }
  fprintf(out, "</ul>\n%s</html>\n", served_count(served) == 0 ? "<p>No process so far.\n" : "");
  return MADE;
}

/* --- /debug/pprof/heap ------------------------------------------------------------------------------------ */

/* Of those served, which may have come since they were looked for last; then the caller has opened it. */
static enum made open_number(const struct served *served, const struct wish *wish,
                             struct remote *remote) {
  char text[24];
  const struct served_process *process = served_find(served, (int)wish->pid);
  snprintf(text, sizeof text, "%ld", wish->pid);
  if (process != NULL) *remote = process->remote;
  bool mine = process != NULL || served->all ||
              (served->name != NULL && process_has_name(text, served->name));
  if (mine && (process != NULL || remote_open(remote, text) == 0)) return MADE;
  if (!mine) complain("process %ld is not served; / names those that are", wish->pid);
  return MADE_NOT_FOUND;
}

static enum made ask_which(size_t count, struct served *served, const struct wish *wish) {
  char text[512] = "", number[24];
  struct served_process *process = NULL;
  while ((process = served_next(served, process)) != NULL) {
    snprintf(number, sizeof number, "%d", process->remote.pid);
    if (wish->name[0] != 0 && !process_has_name(number, wish->name)) continue;
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%s%s", length > 0 ? ", " : "", number);
  }
  if (wish->name[0] != 0)
    complain("%zu processes are called %s: pid=NUMBER, of %s", count, wish->name, text);
  else complain("of which process? pid=NUMBER or name=PROGRAM; / names them");
  return MADE_ASK_AGAIN;
}

static enum made open_wish(struct served *served, const struct wish *wish, struct remote *remote) {
  struct left_out left_out = {0};
  struct served_process *process = NULL;
  size_t count = 0;
  char number[24];
  if (wish->pid != 0) return open_number(served, wish, remote);
  served_refresh(served, &left_out, now_ms() + served->deadline_ms);
  while ((process = served_next(served, process)) != NULL) {
    snprintf(number, sizeof number, "%d", process->remote.pid);
    if (wish->name[0] != 0 && !process_has_name(number, wish->name)) continue;
    *remote = process->remote;
    count++;
  }
  if (count == 1) return MADE;
  if (count > 1) return ask_which(count, served, wish);
  if (wish->name[0] != 0) complain("no process called %s is served", wish->name);
  else complain("there is no process any more");
  return wish->name[0] != 0 ? MADE_NOT_FOUND : MADE_NOT;
}

static bool read_profile(struct profile *profile, struct remote *remote, long seconds) {
  remote_follow(remote); /* it was looked at a second ago, perhaps */
  if (profile_read(profile, remote) != 0) return false;
  if (seconds == 0) return true;
  struct profile before = *profile;
  struct timespec time = {.tv_sec = seconds};
  nanosleep(&time, NULL);
  if (remote_report(remote, remote_look_on(remote)) != 0 || profile_read(profile, remote) != 0)
    return false;
  profile_subtract(profile, &before);
  return true;
}

static enum made profile_page(struct served *served, const struct wish *wish, int fd) {
  struct profile profile;
  struct remote *remote = calloc(1, sizeof *remote);
  if (remote == NULL) return MADE_NO_MEMORY;
  enum made made = open_wish(served, wish, remote);
  if (made == MADE &&
      !(read_profile(&profile, remote, wish->seconds) &&
        pprof_write(&profile, remote, wish->allocated ? ALLOCATED_BYTES : LIVE_BYTES, fd)))
    made = MADE_NOT;
  free(remote);
  return made;
}

/* --- all of it -------------------------------------------------------------------------------------------- */

static enum made write_page(struct served *served, enum page page, int fd, FILE *problems) {
  FILE *out = fdopen(dup(fd), "w");
  if (out == NULL) return MADE_NO_MEMORY;
  enum made made = page == PAGE_INDEX
                       ? index_page(served, out)
                       : metrics_page(served, page == PAGE_METRICS_OPEN, out, problems);
  return fclose(out) == 0 ? made : MADE_NO_MEMORY;
}

enum made read_page(struct served *served, enum page page, const struct wish *wish, int fd) {
  static const char no_memory[] = "out of memory\n";
  char *said = NULL;
  size_t length = 0;
  FILE *problems = open_memstream(&said, &length);
  if (problems == NULL) return MADE_NO_MEMORY;
  collect_complaints(problems);
  enum made made = page == PAGE_PROFILE ? profile_page(served, wish, fd)
                                        : write_page(served, page, fd, problems);
  collect_complaints(NULL);
  if (fclose(problems) != 0) made = MADE_NO_MEMORY;
  const char *text = made == MADE_NO_MEMORY ? no_memory : said;
  if (made != MADE && (ftruncate(fd, 0) != 0 || pwrite(fd, text, strlen(text), 0) < 0))
    made = MADE_NO_MEMORY;
  free(said);
  return made;
}
