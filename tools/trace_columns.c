/* trace_columns.c - from events to columns of bytes, of which most are the same again and again. */
#include <string.h>

#include "trace_file.h"

/* A column: its values, and what their bytes have in common. */
struct column {
  uint64_t values[TRACE_EVENTS];
  uint32_t count;
  unsigned bytes;       /* of a value, so many planes there are */
  unsigned significant; /* planes from here on repeat the sign */
  bool any_negative, all_negative;
};

static void look_at(struct column *column, uint32_t count, unsigned bytes) {
  uint64_t any = 0, ones = 0, zeros = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t value = column->values[i];
    any |= value ^ (uint64_t)((int64_t)value >> 63);
    ones |= value;
    zeros |= ~value;
  }
  column->count = count;
  column->bytes = bytes;
  column->significant = any == 0 ? 0 : (unsigned)(63 - __builtin_clzll(any)) / 8 + 1;
  column->any_negative = ones >> 63 != 0;
  column->all_negative = zeros >> 63 == 0;
}

/* The four columns in their order; false after the last one. */
static bool next_column(struct column *column, unsigned which, const struct trace_event *events,
                        uint32_t count, uint64_t stamp, uint64_t address) {
  uint64_t *values = column->values;
  switch (which) {
  case 0:
    for (uint32_t i = 0; i < count; stamp = events[i++].stamp) values[i] = events[i].stamp - stamp;
    break;
  case 1:
    for (uint32_t i = 0; i < count; address = trace_address(&events[i++]))
      values[i] = trace_address(&events[i]) - address;
    break;
  case 2:
    for (uint32_t i = 0; i < count; i++) values[i] = events[i].size;
    break;
  case 3:
    for (uint32_t i = 0; i < count; i++) values[i] = trace_what(&events[i]);
    break;
  default:
    return false;
  }
  look_at(column, count, which == 3 ? 4 : 8);
  return true;
}

/* One byte of every value. */
static unsigned char *put_plane(unsigned char *restrict out, const struct column *column,
                                unsigned byte) {
  const uint64_t *restrict values = column->values;
  unsigned shift = 8 * byte;
  for (uint32_t i = 0; i < column->count; i++) out[i] = (unsigned char)(values[i] >> shift);
  return out + column->count;
}

/* The same byte for every value of several planes. */
static unsigned char *put_same(unsigned char *out, unsigned char byte, size_t size) {
  memset(out, byte, size);
  return out + size;
}

void trace_columns(unsigned char *out, const struct trace_event *events, uint32_t count,
                   uint64_t stamp, uint64_t address) {
  static struct column column;
  for (unsigned which = 0; next_column(&column, which, events, count, stamp, address); which++) {
    unsigned byte = 0;
    for (; byte < column.bytes && byte < column.significant; byte++)
      out = put_plane(out, &column, byte);
    if (byte == column.bytes) continue;
    if (!column.any_negative) {
      out = put_same(out, 0, (size_t)(column.bytes - byte) * count);
      continue;
    }
    const unsigned char *sign = out;
    for (out = put_plane(out, &column, byte++); byte < column.bytes; byte++, out += count)
      memcpy(out, sign, count);
  }
}

/* --- zstd without searching -------------------------------------------------------------------------------------
 *
 * A program that does little but allocate makes events faster than libzstd compresses them at any level (20 to 50 ns
 * an event). What repeats is known here without a search, and the format has blocks to say just that (RFC 8878,
 * 3.1.1.2): a byte so and so many times, and a copy of what came `count` bytes before. Everything else is stored
 * as it is: about 9 bytes an event instead of 5, in a tenth of the time. */

enum block { BLOCK_STORED, BLOCK_SAME, BLOCK_COPY };

static unsigned char *put(unsigned char *out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) *out++ = (unsigned char)(value >> (8 * i));
  return out;
}

static unsigned char *put_block(unsigned char *out, enum block type, size_t size, bool last) {
  return put(out, (uint64_t)size << 3 | (uint64_t)type << 1 | last, 3);
}

static unsigned log2_of(uint64_t value) { return 63u - (unsigned)__builtin_clzll(value); }

/* A compressed block of no literals and one sequence, whose three codes stand in tables of one entry each:
 * no literals, then `length` bytes from `distance` before. The bits behind the codes are read from the end. */
static unsigned char *put_copy(unsigned char *out, size_t distance, size_t length, bool last) {
  enum { NO_LITERALS = 0, SEQUENCES = 1, TABLES_OF_ONE = 0x54, LENGTH_CODES = 36, LEAST = 3 };
  uint64_t offset = distance + 3, rest = length - LEAST;
  unsigned offset_bits = log2_of(offset), length_bits = log2_of(rest);
  uint64_t bits = UINT64_C(1) << offset_bits | (offset ^ UINT64_C(1) << offset_bits);
  bits = bits << length_bits | (rest ^ UINT64_C(1) << length_bits);
  unsigned bytes = (offset_bits + length_bits) / 8 + 1;
  out = put_block(out, BLOCK_COPY, 6 + bytes, last);
  *out++ = NO_LITERALS;
  *out++ = SEQUENCES;
  *out++ = TABLES_OF_ONE;
  *out++ = NO_LITERALS;
  *out++ = (unsigned char)offset_bits;
  *out++ = (unsigned char)(LENGTH_CODES + length_bits);
  return put(out, bits, bytes);
}

/* The planes from `byte` on, which repeat the sign. */
static unsigned char *pack_sign(unsigned char *out, const struct column *column, unsigned byte,
                                bool last) {
  size_t count = column->count, planes = column->bytes - byte;
  if (!column->any_negative || column->all_negative) {
    out = put_block(out, BLOCK_SAME, planes * count, last);
    *out++ = column->any_negative ? 0xFF : 0;
    return out;
  }
  bool alone = planes == 1;
  out = put_plane(put_block(out, BLOCK_STORED, count, last && alone), column, byte);
  return alone ? out : put_copy(out, count, (planes - 1) * count, last);
}

size_t trace_pack(unsigned char *out, const struct trace_event *events, uint32_t count,
                  uint64_t stamp, uint64_t address) {
  enum { MAGIC = 0xFD2FB528, ONE_SEGMENT_SIZE_IN_4_BYTES = 0xA0 };
  static struct column column;
  unsigned char *start = out;
  out = put(out, MAGIC, 4);
  *out++ = ONE_SEGMENT_SIZE_IN_4_BYTES;
  out = put(out, TRACE_COLUMN_BYTES(count), 4);
  for (unsigned which = 0; next_column(&column, which, events, count, stamp, address); which++) {
    unsigned stored = column.significant < column.bytes ? column.significant : column.bytes;
    bool last = which == 3;
    if (stored > 0)
      out = put_block(out, BLOCK_STORED, (size_t)stored * count, last && stored == column.bytes);
    for (unsigned byte = 0; byte < stored; byte++) out = put_plane(out, &column, byte);
    if (stored < column.bytes) out = pack_sign(out, &column, stored, last);
  }
  return (size_t)(out - start);
}
