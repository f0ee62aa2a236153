/* trace_file.h - writes a trace (docs/trace-format.md). */
#ifndef HAKMEM_TRACE_FILE_H
#define HAKMEM_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_layer/shared.h"

struct trace_file {
  const char *path;
  int file;
  int error;           /* why it cannot be written any more; 0: it can */
  bool is_new;         /* it was not there before */
  uint64_t size;       /* of the header and all whole frames */
  uint64_t body;       /* where the frames of events begin */
  struct frame *frame; /* buffers, of all files */
};

enum trace_frame { TRACE_FRAME_EVENTS = 1, TRACE_FRAME_INFORMATION, TRACE_FRAME_END };

/** Opens the file; one that exists only with `force`, and unchanged until trace_file_begin. Complains and returns
 * false. */
bool trace_file_open(struct trace_file *file, const char *path, bool force);

/** Makes a file that is not there yet. False: `errno` says why, EEXIST among others. */
bool trace_file_make(struct trace_file *file, const char *path);

/** Empties the file, and writes the header and the frame of information. All that write complain at the first
 * failure, cut the file off behind its last whole frame and return false. */
bool trace_file_begin(struct trace_file *file, const char *information);

/** Drops the events written so far. */
bool trace_file_restart(struct trace_file *file);

/** `level`: of libzstd; TRACE_QUICKLY: faster than any of them, and larger (few events get level 1). */
#define TRACE_QUICKLY INT32_MIN
bool trace_file_events(struct trace_file *file, uint32_t thread, const struct trace_event *events,
                       uint32_t count, int level);

bool trace_file_end(struct trace_file *file, const char *end);

/** strerror, and by what name a user knows the limit that it is. */
const char *trace_write_error(int error);

/** Removes the file if it was made by trace_file_open. */
void trace_file_discard(struct trace_file *file);

/* trace_columns.c */

/** Bytes that `count` events take as columns. */
#define TRACE_COLUMN_BYTES(count) ((size_t)(count)*28)

/** Writes the payload of a frame of events: columns of differences, in planes. At most TRACE_EVENTS of them. */
void trace_columns(unsigned char *out, const struct trace_event *events, uint32_t count,
                   uint64_t stamp, uint64_t address);

/** The same as a zstd frame, of at least TRACE_PACK_LEAST events. Returns its bytes, at most TRACE_PACKED_BYTES. */
size_t trace_pack(unsigned char *out, const struct trace_event *events, uint32_t count,
                  uint64_t stamp, uint64_t address);

/* A copy of fewer than 131 bytes would need another code for its length. */
#define TRACE_PACK_LEAST 256

#define TRACE_PACKED_BYTES (TRACE_COLUMN_BYTES(TRACE_EVENTS) + 256)

#endif
