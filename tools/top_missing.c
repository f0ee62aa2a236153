/* top_missing.c - hakmem top where ncurses is missing: it prints one screen. */
#include "top_view.h"

bool top_view_is_built(void) { return false; }
bool top_view_open(void) { return false; }
int top_view_refuse(void) { return 1; }
void top_view_close(void) {}
void top_view_size(unsigned *rows, unsigned *columns) {
  *rows = 24;
  *columns = 80;
}
void top_view_draw(const struct screen *screen) { (void)screen; }
enum top_key top_view_wait(double seconds) {
  (void)seconds;
  return TOP_QUIT;
}
