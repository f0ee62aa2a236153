/* trace_columns.c - from events to columns of bytes, of which most are the same again and again. */
#include <string.h>

#include "trace_file.h"

/* One byte of every value. */
static void plane(unsigned char *restrict out, const uint64_t *restrict values, uint32_t count,
                  unsigned shift) {
  for (uint32_t i = 0; i < count; i++) out[i] = (unsigned char)(values[i] >> shift);
}

static unsigned char *planes(unsigned char *out, const uint64_t *values, uint32_t count,
                             unsigned bytes) {
  /* High bytes are mostly those of a small number's sign: they are copied from the highest plane. */
  uint64_t any = 0;
  for (uint32_t i = 0; i < count; i++) any |= values[i] ^ (uint64_t)((int64_t)values[i] >> 63);
  unsigned char *highest = out + (size_t)(bytes - 1) * count;
  plane(highest, values, count, 8 * (bytes - 1));
  for (unsigned byte = 0; byte + 1 < bytes; byte++, out += count) {
    if (bytes == 8 && any >> (8 * byte) == 0) memcpy(out, highest, count);
    else plane(out, values, count, 8 * byte);
  }
  return out + count;
}

void trace_columns(unsigned char *out, const struct trace_event *events, uint32_t count,
                   uint64_t stamp, uint64_t address) {
  static uint64_t values[TRACE_EVENTS];
  for (uint32_t i = 0; i < count; stamp = events[i++].stamp) values[i] = events[i].stamp - stamp;
  out = planes(out, values, count, 8);
  for (uint32_t i = 0; i < count; address = events[i++].address)
    values[i] = events[i].address - address;
  out = planes(out, values, count, 8);
  for (uint32_t i = 0; i < count; i++) values[i] = events[i].size;
  out = planes(out, values, count, 8);
  for (uint32_t i = 0; i < count; i++) values[i] = events[i].what;
  planes(out, values, count, 4);
}
