/* allocator.h - names the allocator that a benchmark really runs on. */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include <stddef.h>

/** Writes the allocator's name, version and where it came from into `text`. A preloaded library
 * that takes malloc from the one linked in is named instead. */
void bench_allocator(char *text, size_t size);

#endif
