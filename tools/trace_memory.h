/* trace_memory.h - the recorder's side of trace_layer/shared.h: takes events out of the memory and writes them. */
#ifndef HAKMEM_TRACE_MEMORY_H
#define HAKMEM_TRACE_MEMORY_H

#include "trace_file.h"

/* The region of one process. */
struct trace_memory {
  struct trace_header *header;
  uint32_t *next;               /* for each thread the number of its next chunk */
  uint32_t taken[TRACE_CHUNKS]; /* events of each chunk that are in the file already */
  uint32_t threads;             /* that have recorded something */
  uint32_t room;                /* in `next` */
  uint32_t images;              /* programs that the process has executed and that allocated */
  uint64_t events;
  bool failed; /* nothing is written any more */
};

/** Makes the memory, with regions for that many processes, and maps what all share. Returns its descriptor; complains and
 * returns -1. */
int trace_memory_make(struct trace_common **common, uint32_t seats);

/** Maps the region of a seat. False: errno says why. */
bool trace_memory_open(struct trace_memory *memory, int file, uint32_t seat);

void trace_memory_close(struct trace_memory *memory);

/** Empties a region, for the next process: all of it is 0, and takes no memory. */
void trace_memory_clear(int file, uint32_t seat);

/** Something happened that the recorder has to see. May be called by a signal handler. */
void trace_memory_notice(struct trace_common *common);

/** Sleeps until something happens, `most` at most; `seen`: value of common->wake before the last look. */
void trace_memory_wait(struct trace_common *common, uint32_t seen, const struct timespec *most);

/** Writes the chunks that are full; with `all`, once the program has ended, the others too. */
void trace_memory_take(struct trace_memory *memory, struct trace_file *file, bool all);

/** The same, but one round only, since others wait as well. True: there may be more. */
bool trace_memory_take_some(struct trace_memory *memory, struct trace_file *file, bool all);

/** Writes what has gathered in chunks that are not full, and leaves those to their threads. */
void trace_memory_take_gathered(struct trace_memory *memory, struct trace_file *file);

/** Tells the program that nothing is recorded any more. */
void trace_memory_end(struct trace_memory *memory);

#endif
