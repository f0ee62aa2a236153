/* filter.h - a filter of system calls that refuses some by an error number. CAMPAIGN_FILTER: "EPERM madvise mremap ...". */
#ifndef HAK_CAMPAIGN_FILTER_H
#define HAK_CAMPAIGN_FILTER_H

#include <stdbool.h>
#include <stddef.h>

enum { FILTER_MOST = 16 };

struct filter {
  int error;
  int numbers[FILTER_MOST];
  size_t count;
};

/** From the environment; ends the program where there is no such call or error. */
void filter_read(struct filter *filter);

/** For all threads. Looks that it is on: each call gives the error. False: no filters here. */
bool filter_install(const struct filter *filter);

#endif
