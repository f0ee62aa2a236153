/* columns.c - what is written quickly, libzstd reads as what trace_columns makes, whatever the events are.
 *
 *   columns FILE     FILE is written for it
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "cli.h"
#include "trace_file.h"

void complain(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
}

static uint64_t state = 1;

static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static struct trace_event events[TRACE_EVENTS];
static unsigned char columns[TRACE_COLUMN_BYTES(TRACE_EVENTS)];
static unsigned char unpacked[sizeof columns + 1];
static unsigned char packed[TRACE_PACKED_BYTES];

/* Numbers of up to `bits` bits; with `signs`, the differences go up and down. */
static void fill(uint32_t count, unsigned bits, int signs) {
  const uint64_t mask = (UINT64_C(1) << bits) - 1, middle = UINT64_C(1) << 46;
  uint64_t stamp = middle, address = middle;
  for (uint32_t i = 0; i < count; i++) {
    stamp += signs > 1 ? draw() % 3 - 1 : draw() & mask;
    address = signs > 0 ? (draw() & mask) + 16 : address + (draw() & mask & 0xFFFFFFF);
    uint64_t what = 1 + draw() % 9 + 256 * (draw() % 48);
    events[i].stamp = stamp;
    events[i].address_and_what = (address & TRACE_ADDRESS_MASK) | what << TRACE_WHAT_SHIFT;
    events[i].size = draw() % 100 == 0 && signs > 1 ? UINT64_MAX : draw() & mask;
  }
}

/* `packed` holds a frame of zstd of `size` bytes: is it the columns? */
static int compare(uint32_t count, unsigned bits, int signs, size_t size) {
  size_t wanted = TRACE_COLUMN_BYTES(count);
  trace_columns(columns, events, count, events[0].stamp, trace_address(&events[0]));
  size_t got = ZSTD_decompress(unpacked, sizeof unpacked, packed, size);
  const char *wrong = ZSTD_isError(got)                        ? ZSTD_getErrorName(got)
                      : got != wanted                          ? "another size"
                      : memcmp(unpacked, columns, wanted) != 0 ? "another content"
                                                               : NULL;
  if (wrong != NULL) printf("%u events, %u bits, signs %d: %s\n", count, bits, signs, wrong);
  return wrong != NULL;
}

static int check_pack(uint32_t count, unsigned bits, int signs) {
  size_t size = trace_pack(packed, events, count, events[0].stamp, trace_address(&events[0]));
  if (ZSTD_getFrameContentSize(packed, size) != TRACE_COLUMN_BYTES(count)) return 1;
  return compare(count, bits, signs, size);
}

/* The same through the file. */
static int check_frame(struct trace_file *file, uint32_t count, unsigned bits, int signs) {
  enum { HEAD = 48 };
  uint64_t at = file->size;
  if (!trace_file_events(file, 7, events, count, TRACE_QUICKLY)) return 1;
  size_t size = file->size - at - HEAD;
  if (size > sizeof packed || pread(file->file, packed, size, (off_t)at + HEAD) != (ssize_t)size)
    return 1;
  return compare(count, bits, signs, size);
}

int main(int argc, char **argv) {
  static const uint32_t counts[] = {1,
                                    2,
                                    3,
                                    5,
                                    20,
                                    60,
                                    130,
                                    131,
                                    TRACE_PACK_LEAST - 1,
                                    TRACE_PACK_LEAST,
                                    TRACE_PACK_LEAST + 1,
                                    511,
                                    TRACE_EVENTS - 1,
                                    TRACE_EVENTS};
  static struct trace_file file;
  if (argc != 2 || !trace_file_open(&file, argv[1], true) || !trace_file_begin(&file, "{}"))
    return 2;
  /* Opened for writing only. */
  int failed = 0, done = 0, readable = open(argv[1], O_RDWR);
  if (readable < 0 || dup2(readable, file.file) < 0 || lseek(file.file, 0, SEEK_END) < 0) return 2;
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    for (unsigned bits = 0; bits < 48; bits++)
      for (int signs = 0; signs < 3; signs++, done++) {
        fill(counts[i], bits, signs);
        failed += check_frame(&file, counts[i], bits, signs);
        if (counts[i] >= TRACE_PACK_LEAST) failed += check_pack(counts[i], bits, signs);
      }
  printf("%d frames, %d wrong\n", done, failed);
  return failed != 0 || done == 0;
}
