/* listed.h - processes on hakmem, one a line. */
#ifndef HAKMEM_LISTED_H
#define HAKMEM_LISTED_H

#include <stdio.h>

#include "processes.h"

/** A line for each, the largest first: number, resident memory, what of it lives and what is waste, container, hakmem, and what was
 * called. What is not known of one is '-'; one that is not on hakmem has no line. */
void list_processes(const struct processes *processes, FILE *out);
/** The same as JSON, one object on one line. */
void list_processes_json(const struct processes *processes, FILE *out);

#endif
