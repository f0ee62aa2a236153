/* trace_recorded.c - see trace_recorded.h. */
#define _GNU_SOURCE
#include "trace_recorded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

struct recorded *recorded_make(int memory_file, uint32_t seat) {
  struct recorded *process = calloc(1, sizeof *process);
  if (process != NULL) process->memory = calloc(1, sizeof *process->memory);
  if (process != NULL && process->memory != NULL &&
      trace_memory_open(process->memory, memory_file, seat)) {
    process->seat = seat;
    process->status = -1;
    return process;
  }
  if (process != NULL) free(process->memory);
  free(process);
  return NULL;
}

void recorded_begin(struct recorded *process, char **command) {
  char *text = trace_describe_start(&process->times, command, process->pid,
                                    process->is_first ? NULL : &process->descent);
  free(process->program);
  process->program = strdup(command[0] != NULL ? command[0] : "?");
  process->memory->failed = text == NULL || !trace_file_begin(&process->file, text);
  free(text);
}

void recorded_take(struct recorded *process, bool all) {
  trace_memory_take(process->memory, &process->file, all);
}

static bool write_end(struct recorded *process, int64_t started) {
  struct trace_totals totals = {
      .events = process->events,
      .lost = process->lost,
      .threads = process->threads,
      .started = started,
      .status = process->status,
  };
  char *text = trace_describe_end(&process->times, &totals);
  bool written = text != NULL && trace_file_end(&process->file, text);
  free(text);
  return written;
}

void recorded_end(struct recorded *process, int64_t started) {
  struct trace_memory *memory = process->memory;
  struct trace_file *file = &process->file;
  trace_memory_end(memory);
  trace_times_end(&process->times);
  process->lost = atomic_load(&memory->header->lost);
  process->events = memory->events;
  process->threads = memory->threads;
  process->images = memory->images;
  process->failed = memory->failed || !write_end(process, started);
  if (file->file >= 0 && close(file->file) != 0 && !process->failed) {
    file->error = errno;
    complain("%s: cannot write: %s", file->path, trace_write_error(file->error));
    process->failed = true;
  }
  trace_memory_close(memory);
  free(memory);
  process->memory = NULL;
}

enum { LABEL_SIZE = 128 };

/* "1234 sh (forked): ", or nothing. */
static const char *label(const struct recorded *process, bool named, char *text) {
  text[0] = 0;
  if (named)
    snprintf(text, LABEL_SIZE, "%d %.64s%s: ", (int)process->pid,
             process->program != NULL ? process->program : "?",
             process->descent.forked ? " (forked)" : "");
  return text;
}

void recorded_say(const struct recorded *process, bool named) {
  char text[LABEL_SIZE];
  complain("%s%s: %llu event%s of %u thread%s, %llu bytes, %.2f s", label(process, named, text),
           process->file.path, (unsigned long long)process->events, process->events == 1 ? "" : "s",
           process->threads, process->threads == 1 ? "" : "s",
           (unsigned long long)process->file.size, process->times.seconds);
}

void recorded_say_what_is_missing(const struct recorded *process, bool named) {
  char text[LABEL_SIZE];
  const struct trace_file *file = &process->file;
  label(process, named, text);
  if (process->failed)
    complain("note: %sthe trace ends before the program did%s%s", text,
             file->error != 0 ? ": " : "", file->error != 0 ? trace_write_error(file->error) : "");
  if (process->lost != 0)
    complain("note: %s%llu event%s missing: of signal handlers, or of more than %d threads at once",
             text, (unsigned long long)process->lost, process->lost == 1 ? " is" : "s are",
             TRACE_CHUNKS);
}
