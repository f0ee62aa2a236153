/* core_text.c - what hakmem core prints for people. */
#include <stdlib.h>
#include <string.h>

#include "core_end.h"
#include "stats.h"

typedef unsigned long long number;

static void print_end(const struct core_report *report, FILE *out) {
  const struct core *core = report->core;
  char name[24];
  const char *why = core_code_text(core);
  fprintf(out, "%s (%d)", core->program[0] != 0 ? core->program : "a process", core->pid);
  if (core->is_box) {
    char reason[BOX_WHY_ROOM];
    fprintf(out, " wrote this black box: %s\n", box_why(&core->box, reason));
  } else if (!core_was_ended(core)) {
    fputs(" lived: a debugger made this core\n", out);
  } else {
    fprintf(out, " was ended by %s", core_signal_name(core->signal, name));
    if (core_has_address(core)) fprintf(out, " at 0x%llx", (number)core->address);
    if (why[0] != 0) fprintf(out, ": %s", why);
    if (core->sender != 0 && core->sender != core->pid)
      fprintf(out, ", sent by process %d", core->sender);
    fputc('\n', out);
  }
  if (core->arguments[0] != 0) fprintf(out, "  called as: %s\n", core->arguments);
}

static void print_calls(const struct core_report *report, FILE *out) {
  char text[512];
  const struct core *core = report->core;
  if (core->thread_count == 0) return;
  fprintf(out, "  thread %d of %zu was here:\n", core->threads[0].number, core->thread_count);
  for (unsigned i = 0; i < report->call_count; i++)
    for (unsigned nth = 0;
         core_place_text(report, report->calls[i], nth, text, sizeof text) != NULL; nth++)
      fprintf(out, "      %s\n", text);
}

static void print_said(const struct core_said *said, FILE *out) {
  if (said->count == 0) return;
  fputs("\nwhat hakmem said last\n", out);
  for (unsigned i = 0; i < said->count; i++) fprintf(out, "  %s\n", said->lines[i]);
}

static void print_points(const struct core_report *report, FILE *out) {
  for (unsigned i = 0; i < report->point_count; i++) {
    const struct core_point *point = &report->points[i];
    fputc('\n', out);
    if (point->of != NULL) fprintf(out, "register %s points to ", point->of);
    where_text(&point->where, report->reader, report->symbols, out);
  }
}

static void print_threads(const struct core_report *report, FILE *out) {
  char text[512];
  const struct core *core = report->core;
  if (core->thread_count < 2) return;
  fprintf(out, "\nthreads: %zu\n", core->thread_count);
  for (size_t i = 0; i < core->thread_count && i < THREADS_SHOWN; i++)
    fprintf(out, "  %d  %s\n", core->threads[i].number,
            core_place_text(report, core->threads[i].pc, 0, text, sizeof text));
  if (core->thread_count > THREADS_SHOWN)
    fprintf(out, "  and %zu more\n", core->thread_count - THREADS_SHOWN);
}

static void print_files(const struct core *core, FILE *out) {
  bool any = false;
  for (size_t i = 0; i < core->file_count; i++) {
    const struct core_file *file = &core->files[i];
    bool unsure = file->fd >= 0 && !file->checked;
    if (!file->tried || (file->fd >= 0 && !unsure)) continue;
    if (!any) fputs("\nfiles that were mapped\n", out);
    any = true;
    fprintf(out, "  %s %s\n", file->path,
            unsure ? "may be another: the core has no build-id of it" : file->why);
  }
}

void core_text(const struct core_report *report, FILE *out) {
  char equation[512];
  print_end(report, out);
  print_calls(report, out);
  print_said(&report->said, out);
  print_points(report, out);
  print_threads(report, out);
  if (report->snapshot != NULL) {
    stats_equation(report->snapshot, equation, sizeof equation);
    fprintf(out, "\n%s\nhakmem %s (%s)%s\n", equation, report->remote->layout.release,
            report->remote->layout.variant, stats_moment(report->snapshot, report->remote));
    struct sampled *sampled = sampled_read(report->snapshot, report->remote);
    stats_print_parts(report->snapshot, sampled, out);
    free(sampled);
  }
  if (report->places != NULL) {
    fputc('\n', out);
    prof_table(report->places, out);
  }
  if (report->snapshot != NULL) stats_print_heaps(report->snapshot, out);
  print_files(report->core, out);
}
