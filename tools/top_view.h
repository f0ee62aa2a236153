/* top_view.h - a terminal that shows a screen and waits for keys. */
#ifndef HAKMEM_TOP_VIEW_H
#define HAKMEM_TOP_VIEW_H

#include "screen.h"

enum top_key {
  TOP_TIME,   /* the time is over: look again */
  TOP_REDRAW, /* the terminal has another size */
  TOP_UP,
  TOP_DOWN,
  TOP_PAGE_UP,
  TOP_PAGE_DOWN,
  TOP_ENTER,
  TOP_BACK, /* escape */
  TOP_QUIT
};

/** False where the tool was built without ncurses: none of the others is to be called then. */
bool top_view_is_built(void);
/** False when the terminal is none that can be used. */
bool top_view_open(void);
/** Complains of that; an exit code. */
int top_view_refuse(void);
void top_view_close(void);
void top_view_size(unsigned *rows, unsigned *columns);
void top_view_draw(const struct screen *screen);
enum top_key top_view_wait(double seconds);

#endif
