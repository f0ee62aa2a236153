/* top_sites.h - the places that hold most, for the screen of `hakmem top`. */
#ifndef HAKMEM_TOP_SITES_H
#define HAKMEM_TOP_SITES_H

#include "sampled.h"

enum { TOP_SITES = 16, TOP_SITE_TEXT = 200 };

struct top_site {
  double bytes;
  uint64_t samples;
  uint32_t place;           /* names it within its process */
  char text[TOP_SITE_TEXT]; /* its innermost functions: "read_line < load < main" */
};

struct symbols;

struct top_sites {
  struct top_site sites[TOP_SITES]; /* the largest first */
  unsigned count;
  struct sampled sampled;  /* what else the samples tell, if it is known */
  struct symbols *symbols; /* opened once: debugging information is large */
  bool opened;
};

/** Looks again; without samples there are none. */
void top_sites_look(struct top_sites *sites, const struct snapshot *snapshot,
                    const struct remote *remote);
void top_sites_free(struct top_sites *sites);

#endif
