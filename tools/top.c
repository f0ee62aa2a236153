/* top.c - hakmem top PID: the same as hakmem stats, again and again. */
#define _GNU_SOURCE
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "processes.h"
#include "screen.h"
#include "stats.h"
#include "top_machine.h"
#include "top_view.h"

struct arguments {
  struct words words;
  double seconds;
  bool once, wrong;
};

enum { KEY_ONCE = 1000 };

static const struct argp_option options[] = {
    {"delay", 'd', "SECONDS", 0, "Seconds between two updates (default 1)", 0},
    {"once", KEY_ONCE, NULL, 0,
     "Print one screen as plain text, as is done where the output is no terminal", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  char *end;
  switch (key) {
  case 'd':
    arguments->seconds = strtod(value, &end);
    if (*end != 0 || end == value || !(arguments->seconds >= 0.1 && arguments->seconds <= 3600)) {
      complain("--delay=%s: a number of seconds from 0.1 to 3600", value);
      arguments->wrong = true;
    }
    return 0;
  case KEY_ONCE:
    arguments->once = true;
    return 0;
  default:
    return take_words(key, state, &arguments->words);
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "[PID|NAME]",
    .doc =
        "Show where the memory of a process is that runs on hakmem, and how that changes. q quits. "
        "Without one, show all processes on hakmem, the largest first; one that is chosen by "
        "the arrow keys and enter is shown alone until q.",
};

struct top {
  struct remote remote;
  struct snapshot snapshot;
  struct history history;
  struct top_sites sites;
  struct screen screen;
  struct timespec started;
};

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static enum remote_state look(struct top *top) {
  snapshot_free(&top->snapshot);
  enum remote_state state = snapshot_take(&top->snapshot, &top->remote);
  while (state != REMOTE_THERE && remote_follow(&top->remote))
    state = snapshot_take(&top->snapshot, &top->remote);
  if (state != REMOTE_THERE) return state;
  stats_sort_heaps(&top->snapshot);
  top_sites_look(&top->sites, &top->snapshot, &top->remote);
  history_add(&top->history, &top->snapshot, seconds_since(&top->started));
  return REMOTE_THERE;
}

static void print_once(struct top *top) {
  screen_fill(&top->screen, &top->snapshot, &top->remote, &top->history, &top->sites, 24, 80);
  for (unsigned i = 0; i < top->screen.count; i++) {
    struct line *line = &top->screen.lines[i];
    size_t length = strlen(line->text);
    while (length > 0 && line->text[length - 1] == ' ') length--;
    printf("%.*s\n", (int)length, line->text);
  }
}

/* Until it is left, or there is nothing to be seen any more. */
static enum remote_state run(struct top *top, double seconds) {
  enum remote_state state = REMOTE_THERE;
  for (bool due = false;;) {
    unsigned rows, columns;
    if (due && (state = look(top)) != REMOTE_THERE) return state;
    top_view_size(&rows, &columns);
    screen_fill(&top->screen, &top->snapshot, &top->remote, &top->history, &top->sites, rows,
                columns);
    top_view_draw(&top->screen);
    enum top_key key = top_view_wait(seconds);
    if (key == TOP_QUIT || key == TOP_BACK) return REMOTE_THERE;
    due = key == TOP_TIME;
  }
}

static int show(struct top *top, double seconds) {
  if (!top_view_open()) return top_view_refuse();
  enum remote_state state = run(top, seconds);
  /* Not before: a complaint would go into the middle of the screen. */
  top_view_close();
  return remote_report(&top->remote, state);
}

static void end(struct top *top) {
  snapshot_free(&top->snapshot);
  top_sites_free(&top->sites);
  free(top);
}

/* One that was chosen among all. */
static const char *show_chosen(int pid, double seconds) {
  char number[16];
  const char *said = "that process has ended, or may not be read any more";
  struct top *top = calloc(1, sizeof *top);
  if (top == NULL) return "out of memory";
  snprintf(number, sizeof number, "%d", pid);
  clock_gettime(CLOCK_MONOTONIC, &top->started);
  if (remote_open(&top->remote, number) == 0 && look(top) == REMOTE_THERE &&
      run(top, seconds) == REMOTE_THERE)
    said = "";
  end(top);
  return said;
}

int command_top(int argc, char **argv) {
  struct arguments arguments = {.seconds = 1};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0 || arguments.wrong)
    return EXIT_USAGE;
  bool once = arguments.once || isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0;
  if (!once && !top_view_is_built()) {
    complain("this hakmem was built without ncurses and has no live view: use --once");
    return EXIT_USAGE;
  }
  if (arguments.words.count == 0)
    return once ? stats_list(false, stdout) : top_machine(arguments.seconds, show_chosen);
  struct top *top = calloc(1, sizeof *top);
  if (top == NULL) {
    complain("out of memory");
    return 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &top->started);
  int code = remote_open_words(&top->remote, &arguments.words);
  if (code == 0) code = remote_report(&top->remote, look(top));
  if (code == 0 && once) print_once(top);
  else if (code == 0) code = show(top, arguments.seconds);
  end(top);
  return code;
}
