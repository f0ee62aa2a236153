/* screen.h - what `hakmem top` shows, line by line, whatever shows it. */
#ifndef HAKMEM_SCREEN_H
#define HAKMEM_SCREEN_H

#include "snapshot.h"
#include "top_sites.h"

enum { LINES_MOST = 200, COLUMNS_MOST = 256, HISTORY = 60 };

struct line {
  char text[COLUMNS_MOST];
  bool strong;                   /* a heading */
  bool chosen;                   /* the one that keys are for */
  unsigned char levels[HISTORY]; /* a curve behind the text: 0 (lowest) to 7 */
  unsigned level_count;
};

struct screen {
  struct line lines[LINES_MOST];
  unsigned count;
};

/* What was seen so far, the youngest last. */
struct history {
  unsigned count;
  double seconds[HISTORY];    /* since the start */
  double parts[HISTORY][8];   /* those of stats_parts, then what is resident */
  uint64_t calls[HISTORY][5]; /* mmap, munmap, madvise, mremap, mprotect */
};

void history_add(struct history *history, const struct snapshot *snapshot, double seconds);

/** Fills the screen with as much as has room in `rows` lines of `columns`. */
void screen_fill(struct screen *screen, const struct snapshot *snapshot,
                 const struct remote *remote, const struct history *history,
                 const struct top_sites *sites, unsigned rows, unsigned columns);

#endif
