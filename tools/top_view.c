/* top_view.c - see top_view.h: by ncurses. */
#define _GNU_SOURCE
#include "top_view.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static SCREEN *terminal;
static bool utf8;
static volatile sig_atomic_t ended_by; /* a signal */
static struct timespec due;            /* when to look again; 0: not set */

bool top_view_is_built(void) { return true; }

static void note_signal(int number) { ended_by = number; }

/* Before ncurses, which takes those that nobody has. Without SA_RESTART: waiting for a key ends. */
static void catch_signals(void) {
  static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  struct sigaction action = {.sa_handler = note_signal};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    sigaction(numbers[i], &action, NULL);
}

bool top_view_open(void) {
  catch_signals();
  /* Not LC_ALL: figures keep their points. */
  setlocale(LC_CTYPE, "");
  utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  terminal = newterm(NULL, stdout, stdin);
  if (terminal == NULL) return false;
  /* A terminal without a cursor that can be placed (dumb) would show line upon line. */
  if (tigetstr("cup") == NULL || tigetstr("clear") == NULL) {
    endwin();
    delscreen(terminal);
    return false;
  }
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  leaveok(stdscr, TRUE);
  curs_set(0);
  return true;
}

int top_view_refuse(void) {
  const char *name = getenv("TERM");
  complain("this terminal cannot be used (TERM=%s): try --once", name != NULL ? name : "");
  return EXIT_CANNOT_RUN;
}

void top_view_close(void) {
  endwin();
  delscreen(terminal);
  if (ended_by == 0) return;
  /* As it would have ended us, with the terminal as it was. */
  signal(ended_by, SIG_DFL);
  raise(ended_by);
}

void top_view_size(unsigned *rows, unsigned *columns) {
  *rows = (unsigned)LINES;
  *columns = (unsigned)COLS;
}

static void draw_level(unsigned level) {
  static const char blocks[][4] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                   "\u2585", "\u2586", "\u2587", "\u2588"};
  static const char ascii[] = "_.,-~=*#";
  if (utf8) addstr(blocks[level]);
  else addch((chtype)ascii[level]);
}

void top_view_draw(const struct screen *screen) {
  erase();
  for (unsigned i = 0; i < screen->count && (int)i < LINES; i++) {
    const struct line *line = &screen->lines[i];
    if (line->strong) attron(A_BOLD);
    if (line->chosen) attron(A_REVERSE);
    mvaddnstr((int)i, 0, line->text, COLS);
    attroff(A_BOLD | A_REVERSE);
    for (unsigned k = 0; k < line->level_count; k++) {
      if (getcurx(stdscr) >= COLS - 1) break;
      draw_level(line->levels[k]);
    }
  }
  refresh();
}

static long left_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long)(due.tv_sec - now.tv_sec) * 1000 + (due.tv_nsec - now.tv_nsec) / 1000000;
}

/* TOP_TIME: it is none of these. */
static enum top_key key_of(int key) {
  switch (key) {
  case 'q':
  case 'Q':
  case 3:
  case 4:
    return TOP_QUIT;
  case 27:
  case KEY_LEFT:
  case KEY_BACKSPACE:
    return TOP_BACK;
  case KEY_UP:
  case 'k':
    return TOP_UP;
  case KEY_DOWN:
  case 'j':
    return TOP_DOWN;
  case KEY_PPAGE:
    return TOP_PAGE_UP;
  case KEY_NPAGE:
    return TOP_PAGE_DOWN;
  case KEY_ENTER:
  case KEY_RIGHT:
  case '\r':
  case '\n':
    return TOP_ENTER;
  case KEY_RESIZE:
    return TOP_REDRAW;
  default:
    return TOP_TIME;
  }
}

enum top_key top_view_wait(double seconds) {
  if (due.tv_sec == 0) {
    clock_gettime(CLOCK_MONOTONIC, &due);
    due.tv_sec += (time_t)seconds;
    due.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  }
  for (;;) {
    long left = left_ms();
    if (left <= 0) {
      due = (struct timespec){0};
      return TOP_TIME;
    }
    timeout(left < 1000 ? (int)left : 1000);
    int key = getch();
    if (ended_by != 0) return TOP_QUIT;
    if (key_of(key) != TOP_TIME) return key_of(key);
    /* The terminal is gone: reading fails at once, again and again. */
    if (key == ERR && isatty(STDIN_FILENO) == 0) return TOP_QUIT;
    if (key == ' ') {
      due = (struct timespec){0};
      return TOP_TIME;
    }
  }
}
