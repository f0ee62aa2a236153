/* top_machine.c - see top_machine.h. Processes are found as hakmem serve --all finds them, so that those that are known cost no search. */
#define _GNU_SOURCE
#include "top_machine.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "listed.h"
#include "serve.h"
#include "stats.h"
#include "top_view.h"

/* A look takes so long at most, and so much of it for one process. */
enum { LOOK_MS = 5000, EACH_MS = 500, PROCESSES_MOST = 10000 };

struct machine {
  struct served served;
  struct left_out left_out;
  struct listed *rows;
  size_t count;
  int chosen;   /* the number of a process; 0: the first */
  size_t first; /* row on the screen */
  const char *said;
  struct snapshot snapshot;
  struct screen screen;
};

static const struct listed *find(const struct listed *rows, size_t count, int pid) {
  for (size_t i = 0; i < count; i++)
    if (rows[i].pid == pid) return &rows[i];
  return NULL;
}

/* False: no memory. */
static bool look(struct machine *machine) {
  uint64_t late_ms = now_ms() + LOOK_MS;
  machine->left_out = (struct left_out){0};
  served_refresh(&machine->served, &machine->left_out, late_ms);
  size_t room = served_count(&machine->served), count = 0;
  struct listed *rows = calloc(room + 1, sizeof *rows);
  struct served_process *process = NULL;
  while (rows != NULL && count < room &&
         (process = served_next(&machine->served, process)) != NULL) {
    remote_follow(&process->remote);
    listed_read(&rows[count], &machine->snapshot, &process->remote,
                now_ms() < late_ms ? EACH_MS : 0);
    const struct listed *before = find(machine->rows, machine->count, rows[count].pid);
    if (before != NULL) listed_since(&rows[count], before);
    if (rows[count].resident > 0) count++;
  }
  if (rows == NULL) return false;
  free(machine->rows);
  machine->rows = rows;
  machine->count = count;
  listed_sort(rows, count);
  return true;
}

/* --- what is seen ---------------------------------------------------------------------------------------------- */

static size_t chosen_row(const struct machine *machine) {
  const struct listed *row = find(machine->rows, machine->count, machine->chosen);
  return row != NULL ? (size_t)(row - machine->rows) : 0;
}

static struct line *add(struct screen *screen, bool strong) {
  struct line *line = &screen->lines[screen->count++];
  *line = (struct line){.strong = strong};
  return line;
}

static void add_heading(struct machine *machine) {
  double resident = 0, live = 0, waste = 0, rate = 0;
  char text[4][16];
  for (size_t i = 0; i < machine->count; i++) {
    const struct listed *row = &machine->rows[i];
    resident += row->resident;
    live += row->live;
    waste += row->waste;
    if (row->rate > 0) rate += row->rate;
  }
  struct line *line = add(&machine->screen, true);
  snprintf(line->text, sizeof line->text,
           "hakmem top: %zu process%s, resident %s, live %s, waste %s, %s allocated a second",
           machine->count, machine->count == 1 ? "" : "es", stats_bytes(resident, text[0]),
           stats_bytes(live, text[1]), stats_bytes(waste, text[2]), stats_bytes(rate, text[3]));
}

static void draw(struct machine *machine) {
  enum {
    AROUND = 4
  }; /* lines that are no process: heading, empty, names of columns, what is to be said */
  unsigned rows, columns;
  struct screen *screen = &machine->screen;
  top_view_size(&rows, &columns);
  if (rows > LINES_MOST) rows = LINES_MOST;
  size_t room = rows > AROUND ? rows - AROUND : 1, chosen = chosen_row(machine);
  if (machine->first > chosen) machine->first = chosen;
  if (chosen >= machine->first + room) machine->first = chosen - room + 1;
  screen->count = 0;
  add_heading(machine);
  add(screen, false);
  struct line *names = add(screen, true);
  listed_line(NULL, names->text, sizeof names->text);
  for (size_t i = machine->first; i < machine->count && i < machine->first + room; i++) {
    struct line *line = add(screen, false);
    listed_line(&machine->rows[i], line->text, sizeof line->text);
    line->chosen = i == chosen;
  }
  struct line *last = add(screen, false);
  if (machine->said[0] != 0) snprintf(last->text, sizeof last->text, "%s", machine->said);
  else if (machine->count == 0)
    snprintf(
        last->text, sizeof last->text,
        "no process that this user may read runs on hakmem; start one by: hakmem run -- PROGRAM");
  else
    snprintf(last->text, sizeof last->text, "up, down: choose   enter: look into it   q: quit%s",
             machine->left_out.unreadable > 0 ? "   (others may not be read)" : "");
  top_view_draw(screen);
}

/* --- keys ------------------------------------------------------------------------------------------------------ */

static void move(struct machine *machine, long by) {
  if (machine->count == 0) return;
  long row = (long)chosen_row(machine) + by, last = (long)machine->count - 1;
  machine->chosen = machine->rows[row < 0 ? 0 : row > last ? last : row].pid;
}

static void enter(struct machine *machine, double seconds,
                  const char *(*show)(int pid, double seconds)) {
  if (machine->count == 0) return;
  machine->chosen = machine->rows[chosen_row(machine)].pid;
  machine->said = show(machine->chosen, seconds);
}

static int run(struct machine *machine, double seconds,
               const char *(*show)(int pid, double seconds)) {
  enum { PAGE = 10 };
  for (bool due = true;;) {
    if (due && !look(machine)) return 1;
    draw(machine);
    enum top_key key = top_view_wait(seconds);
    due = key == TOP_TIME || key == TOP_ENTER;
    if (key == TOP_QUIT) return 0;
    if (key != TOP_TIME && key != TOP_REDRAW) machine->said = "";
    if (key == TOP_UP) move(machine, -1);
    if (key == TOP_DOWN) move(machine, 1);
    if (key == TOP_PAGE_UP) move(machine, -PAGE);
    if (key == TOP_PAGE_DOWN) move(machine, PAGE);
    if (key == TOP_ENTER) enter(machine, seconds, show);
  }
}

int top_machine(double seconds, const char *(*show)(int pid, double seconds)) {
  struct machine *machine = calloc(1, sizeof *machine);
  FILE *nowhere = fopen("/dev/null", "we");
  int code = 1;
  if (machine == NULL || nowhere == NULL) complain("out of memory");
  else {
    machine->served = (struct served){
        .all = true, .most = PROCESSES_MOST, .deadline_ms = LOOK_MS, .each_ms = EACH_MS};
    machine->said = "";
    if (served_open(&machine->served)) {
      if (top_view_open()) {
        /* A complaint would go into the middle of the screen. */
        collect_complaints(nowhere);
        code = run(machine, seconds, show);
        collect_complaints(NULL);
        top_view_close();
      } else code = top_view_refuse();
      served_close(&machine->served);
    }
    free(machine->rows);
  }
  if (nowhere != NULL) fclose(nowhere);
  free(machine);
  return code;
}
