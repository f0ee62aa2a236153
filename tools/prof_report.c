/* prof_report.c - a profile of a process as it is shown: made while the process is there, written whenever. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "pprof.h"
#include "prof.h"
#include "prof_group.h"
#include "snapshot.h"
#include "stats.h"

static const char *const titles[] = {"live", "allocated since the start", "grown", "live",
                                     "live at the peak"};

struct source {
  const struct profile *profile;
  const struct snapshot *snapshot;
  const struct remote *remote;
};

static void write_net(const struct report *report, FILE *out) {
  char net[16], more[16], less[16];
  double sum = report->sum - report->less;
  fprintf(out, "; net %c%s (+%s, -%s)", sum < 0 ? '-' : '+', stats_bytes(fabs(sum), net),
          stats_bytes(report->sum, more), stats_bytes(report->less, less));
}

/* "one in 2.0 MiB", or why there are none. */
static void write_rate(const struct profile *profile, FILE *out) {
  /* HAKMEM_PROF_MOST thins samples by twos, or the rate was another one before. Less is the chance of which of them live. */
  const double thinned = 1.5;
  char rate[16], now[16];
  if (profile->rate < 0) fputs("off", out);
  else if (profile->rate == 0) fputs("nothing was allocated so far", out);
  else fprintf(out, "one in %s", stats_bytes((double)profile->rate, rate));
  if (profile->rate > 0 && profile->live_rate > thinned * (double)profile->rate)
    fprintf(out, ", so far one in %s", stats_bytes(profile->live_rate, now));
}

/* "peak 226.0 MiB live bytes (in 19 of 20 cases within 44.6 MiB) 12 s ago, by 113 samples (one in 2.0 MiB); 90.0 MiB live now" */
static void write_peak(const struct peak *peak, const struct source *source, FILE *out) {
  const struct profile *profile = source->profile;
  bool core = source->remote->core != NULL;
  char bytes[16], error[16], live[16], age[32];
  if (peak->samples == 0) fputs("peak not known: no block was sampled (", out);
  else
    fprintf(out, "peak %s live bytes (in 19 of 20 cases within %s) %s %s, by %llu sample%s (",
            stats_bytes(peak->bytes, bytes), stats_bytes(peak->error, error),
            stats_age(peak->ms, age), core ? "before the last sample" : "ago",
            (unsigned long long)peak->samples, stats_plural(peak->samples));
  write_rate(profile, out);
  fprintf(out, "); %s live %s\n", stats_bytes((double)source->snapshot->in_use, live),
          core ? "at the end" : "now");
}

static void write_covers(const struct source *source, FILE *out) {
  const struct profile *profile = source->profile;
  char covered[16], all[16];
  /* An estimate may be above what it estimates. */
  double live = (double)source->snapshot->in_use;
  bool above = profile->live_bytes > live;
  fprintf(out, "covers %s of %s live bytes, by %llu sample%s (",
          stats_bytes(above ? live : profile->live_bytes, covered), stats_bytes(live, all),
          (unsigned long long)profile->live_samples, stats_plural(profile->live_samples));
  write_rate(profile, out);
  fputs(")\n", out);
}

static void write_head(const struct report *report, const struct source *source, FILE *out) {
  const struct profile *profile = source->profile;
  const struct remote *remote = source->remote;
  char sum[16];
  const struct prof_order *order = report->order;
  double live = (double)source->snapshot->in_use;
  const double much = 1.1; /* less is not worth a word */
  if (order->view == VIEW_PEAK) write_peak(&report->peak, source, out);
  else write_covers(source, out);
  fprintf(out, "%s (%d): %s %s", remote->program, remote->pid, stats_bytes(report->sum, sum),
          titles[order->view]);
  if (order->view == VIEW_GROWTH)
    fprintf(out, order->program ? " since its first %ld s" : " in %ld s", order->seconds);
  fprintf(out, ", at %zu place%s", report->count, stats_plural(report->count));
  if (order->by != BY_STACKS)
    fprintf(out, ", %zu %s", report->group_count, prof_by_noun(order->by, report->group_count));
  if (order->view == VIEW_GROWTH) write_net(report, out);
  if (order->view == VIEW_LEAKS) fprintf(out, ", of which %u may leak", report->suspects);
  if (profile->dropped > 0)
    fprintf(out, "; %llu sample%s dropped, for want of memory",
            (unsigned long long)profile->dropped, profile->dropped == 1 ? " was" : "s were");
  if (profile->live_bytes > much * live && (order->view == VIEW_LIVE || order->view == VIEW_LEAKS))
    fprintf(out, "; an estimate by few samples, above what lives");
  if (order->view == VIEW_PEAK && report->peak.sampled < report->peak.bytes)
    fprintf(out, "; an estimate by few samples, below what lives");
  fprintf(out, "\n");
}

static void say_what_has_no_names(const struct places *places) {
  for (size_t i = 0; i < places->note_count; i++) complain("note: %s", places->notes[i]);
}

/* Where that is not what was asked for. */
static void say_that_it_is_off(const struct source *source, const struct prof_order *order) {
  if (source->profile->rate >= 0 || order->rate == 0) return;
  if (source->profile->lost)
    complain("note: process %d (%s) was forked in the middle of a sample, and takes none",
             source->remote->pid, source->remote->program);
  else if (order->program)
    complain("note: samples are off (HAKMEM_PROF_RATE=0): --rate=65536 turns them on");
  else
    complain("note: process %d (%s) takes no samples (HAKMEM_PROF_RATE=0, or hakmem prof "
             "--rate=0): hakmem prof --rate=2097152 %d turns them on, for what is allocated then",
             source->remote->pid, source->remote->program, source->remote->pid);
}

/* Of a small process: it may hold less than what one sample stands for. */
static void say_that_there_is_none(const struct source *source, const struct prof_order *order) {
  const struct profile *profile = source->profile;
  char rate[16];
  if (profile->live_samples > 0 || profile->rate <= 65536 || order->view != VIEW_LIVE ||
      order->rate >= 0 || order->program || source->remote->core != NULL)
    return;
  complain("note: nothing that lives was sampled, one in %s: hakmem prof --rate=65536 %d samples "
           "more of what is allocated then",
           stats_bytes((double)profile->rate, rate), source->remote->pid);
}

/* 0, or an exit code. */
static int fill(struct report *report, const struct source *source) {
  size_t length;
  report->places = places_make(source->profile, source->remote);
  FILE *text = open_memstream(&report->head, &length);
  int code = 1;
  if (report->places == NULL || text == NULL) {
    /* What has named all the places may have ended before the last one. */
    if (remote_report(source->remote, remote_look(source->remote)) == 0) complain("out of memory");
  } else {
    if (report->order->format != FORMAT_PPROF) places_merge(report->places);
    if (prof_rows(report) && prof_group(report, source->profile, source->snapshot)) {
      write_head(report, source, text);
      say_that_it_is_off(source, report->order);
      say_that_there_is_none(source, report->order);
      say_what_has_no_names(report->places);
      code = 0;
    } else {
      complain("out of memory");
    }
  }
  if (text != NULL) fclose(text);
  return code;
}

int prof_take(struct report *report, const struct prof_order *order, const struct remote *remote,
              const struct profile *profile) {
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  *report = (struct report){.order = order, .pid = remote->pid, .covered = profile->live_bytes};
  snprintf(report->program, sizeof report->program, "%s", remote->program);
  if (snapshot == NULL) {
    complain("out of memory");
    return 1;
  }
  int code = remote_report(remote, snapshot_take(snapshot, remote));
  if (code == 0) {
    report->live = snapshot->in_use;
    report->peak = peak_find(profile, (double)report->live);
    code = fill(report, &(struct source){profile, snapshot, remote});
    snapshot_free(snapshot);
  }
  free(snapshot);
  return code;
}

void prof_forget(struct report *report) {
  free(report->head);
  free(report->rows);
  for (size_t i = 0; i < report->group_count; i++) free(report->groups[i].name);
  free(report->groups);
  places_free(report->places);
  *report = (struct report){0};
}

/* --- where it goes ------------------------------------------------------------------------------------- */

bool prof_open(struct prof_output *output, const char *path) {
  enum { RIGHTS = 0666, FIRST = STDERR_FILENO + 1 };
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, RIGHTS);
  *output = (struct prof_output){.path = path, .made = fd >= 0};
  if (fd < 0) fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, RIGHTS);
  if (fd >= 0 &&
      fd < FIRST) { /* of us or of the program: it was closed, and is not to be this file */
    int low = fd;
    fd = fcntl(low, F_DUPFD_CLOEXEC, FIRST);
    close(low);
  }
  output->fd = fd;
  if (fd < 0) complain("-o %s: %s", path, strerror(errno));
  return fd >= 0;
}

void prof_close(struct prof_output *output) {
  if (output == NULL) return;
  close(output->fd);
  if (output->made && !output->written) unlink(output->path);
}

/* A stream of its own each time: a program's profile is written anew at each SIGINT. */
static FILE *begin(struct prof_output *output) {
  output->written = true;
  /* Only files have an end and a place in them: not a pipe. */
  if (ftruncate(output->fd, 0) == 0) lseek(output->fd, 0, SEEK_SET);
  int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 0);
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (out == NULL && fd >= 0) close(fd);
  return out;
}

int prof_write(const struct report *report) {
  const struct prof_order *order = report->order;
  FILE *out = order->output != NULL ? begin(order->output) : stdout;
  bool ok = out != NULL, told = false;
  if (ok && order->format == FORMAT_PPROF) {
    enum place_value shown = order->view == VIEW_ALLOCATED ? ALLOCATED_BYTES : LIVE_BYTES;
    ok = pprof_write_places(report->places, shown, fileno(out));
    told = !ok;
  } else if (ok && order->format == FORMAT_JSON) {
    prof_group_json(report, out);
  } else if (ok && order->format == FORMAT_FOLDED) {
    prof_folded(report, out);
  } else if (ok && order->format == FORMAT_HTML) {
    prof_html(report, out);
  } else if (ok) {
    prof_table(report, out);
  }
  if (out != NULL && order->output != NULL) {
    ok = ferror(out) == 0 && ok;
    ok = fclose(out) == 0 && ok;
  }
  if (!ok && !told)
    complain("%s: %s", order->output != NULL ? order->output->path : "standard output",
             strerror(errno));
  return ok ? 0 : 1;
}
