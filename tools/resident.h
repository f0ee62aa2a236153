/* resident.h - which pages of a process the kernel has in memory.
 *
 * /proc/PID/smaps says how many bytes of each mapping are resident, /proc/PID/pagemap which pages are there. The kernel's
 * page of zeros is there as well and is resident nowhere: where a mapping has more pages than resident bytes, those that it
 * does not have for itself count for as much less.
 *
 * A core does not tell which pages were there. Those that it has and that are not all zeros count: a page that the process had
 * only ever read, or written zeros to, does not, and one that was swapped out does.
 */
#ifndef HAKMEM_RESIDENT_H
#define HAKMEM_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target.h"

struct area {
  uint64_t start, end, resident;
  char name[48]; /* the end of its file's name, "[stack]" and such; empty: anonymous */
  double own,
      other; /* what a page counts that the mapping has for itself, and one that it has not; below 0: not known yet */
  double claimed; /* bytes of it that resident_load has shown */
};

enum { NEAR_PAGES = 128 };

struct resident {
  struct target target;
  uint64_t near_start; /* what resident_is has read last; 0: nothing */
  uint64_t near[NEAR_PAGES];
  int pagemap;  /* -1: cannot be read */
  bool by_page; /* false: the kernel does not tell pages, and a mapping counts evenly */
  size_t page;
  struct area *areas; /* by address */
  size_t count;
  uint64_t total; /* what the kernel says of the whole process */
  uint64_t swapped;
};

/** False when the process has ended, or may not be read. */
bool resident_open(struct resident *resident, struct target target);
/** The same without mappings and sums: for resident_bytes. False: pages cannot be told. */
bool resident_open_pages(struct resident *resident, struct target target);
void resident_close(struct resident *resident);

/** Sets weights[i] to how much of page i counts as resident, from 0 to 1, and takes these pages for shown. `start` and `bytes`
 * are multiples of the page. */
void resident_load(struct resident *resident, uint64_t start, uint64_t bytes, double *weights);

/** Is the page at `address` in memory? Also true where that cannot be told. */
bool resident_is(struct resident *resident, uint64_t address);

/** Bytes of whole pages that are in memory of [start, end), both multiples of the page. */
uint64_t resident_bytes(const struct resident *resident, uint64_t start, uint64_t end);

/** The area that has this address; NULL: none. */
/** Resident bytes of an area that were never shown. */
double resident_rest_of(const struct area *area);
/** The same of all areas. */
double resident_rest(const struct resident *resident);

#endif
