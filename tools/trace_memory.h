/* trace_memory.h - the recorder's side of trace/shared.h: takes events out of the memory and writes them. */
#ifndef HAKMEM_TRACE_MEMORY_H
#define HAKMEM_TRACE_MEMORY_H

#include "trace_file.h"

struct trace_memory {
  struct trace_header *header;
  int file;                     /* of the memory */
  uint32_t *next;               /* for each thread the number of its next chunk */
  uint32_t taken[TRACE_CHUNKS]; /* events of each chunk that are in the file already */
  uint32_t threads;             /* that have recorded something */
  uint32_t room;                /* in `next` */
  uint32_t images;              /* programs that the process has executed and that allocated */
  uint64_t events;
  bool failed; /* nothing is written any more */
};

bool trace_memory_make(struct trace_memory *memory, enum trace_clock clock,
                       uint64_t ticks_per_second);

/** Something happened that trace_memory_take has to see. May be called by a signal handler. */
void trace_memory_notice(struct trace_memory *memory);

/** Sleeps until something happens, a second at most; `seen`: value of header->wake before the last look. */
void trace_memory_wait(struct trace_memory *memory, uint32_t seen);

/** Writes the chunks that are full; with `all`, once the program has ended, the others too. */
void trace_memory_take(struct trace_memory *memory, struct trace_file *file, bool all);

/** Writes what has gathered in chunks that are not full, and leaves those to their threads. */
void trace_memory_take_gathered(struct trace_memory *memory, struct trace_file *file);

/** Tells the program that nothing is recorded any more. */
void trace_memory_end(struct trace_memory *memory);

#endif
