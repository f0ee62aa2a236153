/* columns.c - what trace_pack makes, libzstd reads as what trace_columns makes, whatever the events are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "trace_file.h"

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
    events[i].address_and_what =
        (address & ((UINT64_C(1) << TRACE_WHAT_SHIFT) - 1)) | what << TRACE_WHAT_SHIFT;
    events[i].size = draw() % 100 == 0 && signs > 1 ? UINT64_MAX : draw() & mask;
  }
}

static int check(uint32_t count, unsigned bits, int signs) {
  uint64_t stamp = events[0].stamp, address = trace_address(&events[0]);
  trace_columns(columns, events, count, stamp, address);
  size_t size = trace_pack(packed, events, count, stamp, address);
  size_t wanted = TRACE_COLUMN_BYTES(count);
  size_t got = ZSTD_decompress(unpacked, sizeof unpacked, packed, size);
  const char *wrong = ZSTD_isError(got)                           ? ZSTD_getErrorName(got)
                      : size > sizeof packed                      ? "too large"
                      : got != wanted                             ? "another size"
                      : memcmp(unpacked, columns, wanted) != 0    ? "another content"
                      : ZSTD_getFrameContentSize(packed, size) != wanted ? "size not said"
                                                                  : NULL;
  if (wrong != NULL) printf("%u events, %u bits, signs %d: %s\n", count, bits, signs, wrong);
  return wrong != NULL;
}

int main(void) {
  static const uint32_t counts[] = {TRACE_PACK_LEAST, TRACE_PACK_LEAST + 1, 511, 1000,
                                    TRACE_EVENTS - 1, TRACE_EVENTS};
  int failed = 0, done = 0;
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    for (unsigned bits = 0; bits < 48; bits++)
      for (int signs = 0; signs < 3; signs++, done++) {
        fill(counts[i], bits, signs);
        failed += check(counts[i], bits, signs);
      }
  printf("%d frames, %d wrong\n", done, failed);
  return failed != 0 || done != 864;
}
