/* trace_memory.c - see trace_memory.h. */
#define _GNU_SOURCE
#include "trace_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"

int trace_memory_make(struct trace_common **common, uint32_t seats) {
  int file = memfd_create("hakmem-trace", MFD_CLOEXEC);
  void *place = MAP_FAILED;
  if (file >= 0 && ftruncate(file, (off_t)TRACE_REGION_AT(seats)) == 0)
    place = mmap(NULL, TRACE_HEADS_AT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (place == MAP_FAILED) {
    complain("cannot make the memory for events, %zu MiB: %s", (TRACE_REGION_AT(seats) >> 20) + 1,
             trace_write_error(errno));
    if (file >= 0) close(file);
    return -1;
  }
  struct trace_header *header = place;
  header->magic = TRACE_MAGIC;
  *common = trace_common(header);
  return file;
}

bool trace_memory_open(struct trace_memory *memory, int file, uint32_t seat) {
  memset(memory, 0, sizeof *memory);
  void *place = mmap(NULL, TRACE_BYTES(TRACE_CHUNKS), PROT_READ | PROT_WRITE, MAP_SHARED, file,
                     (off_t)TRACE_REGION_AT(seat));
  if (place == MAP_FAILED) return false;
  memory->header = place;
  return true;
}

void trace_memory_close(struct trace_memory *memory) {
  munmap(memory->header, TRACE_BYTES(TRACE_CHUNKS));
  free(memory->next);
  memory->header = NULL;
  memory->next = NULL;
}

void trace_memory_clear(int file, uint32_t seat) {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)TRACE_REGION_AT(seat),
            (off_t)TRACE_BYTES(TRACE_CHUNKS));
}

void trace_memory_notice(struct trace_common *common) { atomic_fetch_add(&common->wake, 1); }

void trace_memory_wait(struct trace_common *common, uint32_t seen, const struct timespec *most) {
  atomic_store(&common->recorder_sleeps, 1);
  trace_sleep(&common->wake, seen, most);
  atomic_store(&common->recorder_sleeps, 0);
}

static void give(struct trace_header *header) {
  atomic_fetch_add(&header->given, 1);
  if (atomic_exchange(&header->waiting, 0) != 0) trace_wake_all(&header->given);
}

static void free_chunk(struct trace_memory *memory, uint32_t index) {
  struct trace_chunk *chunk = &trace_chunks(memory->header)[index];
  memory->taken[index] = 0;
  atomic_store_explicit(&chunk->count, 0, memory_order_relaxed);
  /* release: the events are read before they are written over */
  atomic_store_explicit(&chunk->state, TRACE_FREE_CHUNK, memory_order_release);
}

/* Where the number of the thread's next chunk is kept. NULL: the number is not one that a thread was given. */
static uint32_t *next_of(struct trace_memory *memory, uint32_t thread) {
  if (thread >= atomic_load(&memory->header->threads)) return NULL;
  if (thread >= memory->room) {
    uint32_t room = thread < 512 ? 1024 : thread * 2;
    uint32_t *larger = reallocarray(memory->next, room, sizeof *larger);
    if (larger == NULL) return NULL;
    memset(larger + memory->room, 0, (room - memory->room) * sizeof *larger);
    memory->next = larger;
    memory->room = room;
  }
  return &memory->next[thread];
}

/* Hard as long as the program does not have to wait for it. */
static int level_for(uint32_t full) {
  return full < TRACE_FULL_MOST / 16 ? 3 : full < TRACE_FULL_MOST / 4 ? 1 : TRACE_QUICKLY;
}

/* Writes what of the chunk is not in the file yet, if its turn among those of its thread has come. `done`: its thread
 * writes no more to it. */
static bool take_chunk(struct trace_memory *memory, struct trace_file *file, uint32_t index,
                       bool done) {
  struct trace_chunk *chunk = &trace_chunks(memory->header)[index];
  uint32_t count = atomic_load_explicit(&chunk->count, memory_order_acquire);
  uint32_t full = atomic_load_explicit(&memory->header->full, memory_order_relaxed);
  uint32_t *next = next_of(memory, chunk->thread);
  uint32_t from = memory->taken[index];
  if (next == NULL || count > TRACE_EVENTS || count < from) {
    if (!memory->failed)
      complain("the program has written over the memory for events; recording ends");
    memory->failed = true;
  } else if (*next != chunk->number) {
    return false;
  } else {
    *next += done;
    if (chunk->thread >= memory->threads) memory->threads = chunk->thread + 1;
  }
  if (!memory->failed && count != from) {
    memory->failed =
        !trace_file_events(file, chunk->thread, &trace_events(memory->header, index)[from],
                           count - from, level_for(full));
    if (!memory->failed) memory->events += count - from;
    memory->taken[index] = count;
  }
  return true;
}

static bool take_round(struct trace_memory *memory, struct trace_file *file, bool all) {
  struct trace_header *header = memory->header;
  uint32_t used = atomic_load(&header->used);
  bool any = false;
  for (uint32_t i = 0; i < used && i < TRACE_CHUNKS; i++) {
    struct trace_chunk *chunk = &trace_chunks(header)[i];
    uint32_t state = atomic_load_explicit(&chunk->state, memory_order_acquire);
    bool owned = all && state == TRACE_OWNED && atomic_load(&chunk->count) != 0;
    if ((state != TRACE_FULL && !owned) || !take_chunk(memory, file, i, true)) continue;
    free_chunk(memory, i);
    if (state == TRACE_FULL) atomic_fetch_sub(&header->full, 1);
    any = true;
    if (atomic_load(&header->waiting) != 0 &&
        atomic_load(&header->full) <= TRACE_FULL_MOST - TRACE_FULL_MOST / 8)
      give(header);
  }
  return any;
}

/* The process has executed another program: what the one before has recorded is forgotten. */
static void accept_image(struct trace_memory *memory, struct trace_file *file, uint32_t image) {
  struct trace_header *header = memory->header;
  for (uint32_t i = 0; i < TRACE_CHUNKS && i < atomic_load(&header->used); i++)
    free_chunk(memory, i);
  if (memory->images++ != 0 && !memory->failed) memory->failed = !trace_file_restart(file);
  if (memory->room != 0) memset(memory->next, 0, memory->room * sizeof *memory->next);
  memory->threads = 0;
  memory->events = 0;
  atomic_store(&header->full, 0);
  atomic_store(&header->threads, 0);
  atomic_store(&header->lost, 0);
  atomic_store(&header->accepted, image);
  give(header);
}

bool trace_memory_take_some(struct trace_memory *memory, struct trace_file *file, bool all) {
  struct trace_header *header = memory->header;
  uint32_t image = atomic_load(&header->image);
  if (image != atomic_load(&header->accepted)) accept_image(memory, file, image);
  bool any = take_round(memory, file, all);
  if (memory->failed) trace_memory_end(memory);
  return any;
}

void trace_memory_take(struct trace_memory *memory, struct trace_file *file, bool all) {
  while (trace_memory_take_some(memory, file, all)) continue;
}

void trace_memory_take_gathered(struct trace_memory *memory, struct trace_file *file) {
  struct trace_header *header = memory->header;
  /* Of a program that is not accepted yet everything is to come; what lies there is that of the one before. */
  if (atomic_load(&header->image) != atomic_load(&header->accepted)) return;
  uint32_t used = atomic_load(&header->used);
  for (uint32_t i = 0; i < used && i < TRACE_CHUNKS && !memory->failed; i++) {
    const struct trace_chunk *chunk = &trace_chunks(header)[i];
    if (atomic_load_explicit(&chunk->state, memory_order_acquire) != TRACE_OWNED) continue;
    /* acquire: with the events, whose chunk it is */
    if (atomic_load_explicit(&chunk->count, memory_order_acquire) == memory->taken[i]) continue;
    take_chunk(memory, file, i, false);
  }
  if (memory->failed) trace_memory_end(memory);
}

void trace_memory_end(struct trace_memory *memory) {
  atomic_store(&memory->header->ended, 1);
  give(memory->header);
}
