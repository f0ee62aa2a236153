/* Reads a trace by the description of the format alone and prints it: a line for each text ("information {...}",
 * "end {...}"), one for each event: thread, stamp, operation, address, size, alignment. With --count only the number
 * of events of each thread and operation. A frame that was cut off or is damaged ends it with "broken OFFSET". */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static const unsigned char magic[8] = {0x89, 'H', 'T', 'R', 'C', 0x0D, 0x0A, 0x1A};
static const char *const names[] = {"?",    "malloc", "calloc", "aligned", "free",
                                    "from", "to",     "failed", "touched", "end_of_thread"};
enum { HEADER = 16, HEAD = 48, MOST = 16 << 20, OPERATIONS = 10, THREADS = 100000 };

static uint64_t number(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | at[bytes];
  return value;
}

static uint32_t crc(const unsigned char *data, size_t size) {
  uint32_t value = 0xFFFFFFFF;
  for (size_t i = 0; i < size; i++) {
    value ^= data[i];
    for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
  }
  return ~value;
}

/* The i-th value of a column of `bytes` planes. */
static uint64_t value_at(const unsigned char *column, uint64_t count, int bytes, uint64_t i) {
  uint64_t value = 0;
  for (int b = bytes; b-- > 0;) value = value << 8 | column[(uint64_t)b * count + i];
  return value;
}

static bool counting;
static uint64_t counts[THREADS][OPERATIONS];

static bool print_events(const unsigned char *head, const unsigned char *raw, uint64_t size) {
  uint64_t thread = number(head + 8, 4), count = number(head + 12, 4);
  uint64_t stamp = number(head + 24, 8), address = number(head + 32, 8);
  if (size != count * 28) return false;
  for (uint64_t i = 0; i < count; i++) {
    stamp += value_at(raw, count, 8, i);
    address += value_at(raw + 8 * count, count, 8, i);
    uint64_t bytes = value_at(raw + 16 * count, count, 8, i);
    uint64_t what = value_at(raw + 24 * count, count, 4, i);
    if ((what & 255) == 0 || (what & 255) >= OPERATIONS || thread >= THREADS) return false;
    counts[thread][what & 255]++;
    if (!counting)
      printf("%u %llu %s %#llx %llu %llu\n", (unsigned)thread, (unsigned long long)stamp,
             names[what & 255], (unsigned long long)address, (unsigned long long)bytes,
             (unsigned long long)(what >> 8));
  }
  return true;
}

/* Bytes of the frame, 0 if it is broken. */
static size_t print_frame(const unsigned char *at, size_t left) {
  static unsigned char raw[MOST];
  if (left < HEAD || memcmp(at, "HTF1", 4) != 0 || crc(at, 44) != number(at + 44, 4)) return 0;
  uint64_t kind = number(at + 4, 2), size = number(at + 16, 4), packed = number(at + 20, 4);
  if (number(at + 6, 2) != 0 || size > MOST || packed > left - HEAD) return 0;
  if (crc(at + HEAD, packed) != number(at + 40, 4)) return 0;
  if (ZSTD_decompress(raw, sizeof raw, at + HEAD, packed) != size) return 0;
  if (kind == 1 && !print_events(at, raw, size)) return 0;
  if (kind == 2 || kind == 3)
    printf("%s %.*s\n", kind == 2 ? "information" : "end", (int)size, (char *)raw);
  return HEAD + packed;
}

int main(int argc, char **argv) {
  counting = argc == 3 && strcmp(argv[1], "--count") == 0;
  FILE *file = argc >= 2 ? fopen(argv[argc - 1], "rb") : NULL;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    fprintf(stderr, "usage: print_trace [--count] TRACE\n");
    return 2;
  }
  size_t size = (size_t)ftell(file), at = HEADER;
  unsigned char *data = malloc(size + 1);
  rewind(file);
  if (data == NULL || fread(data, 1, size, file) != size || size < HEADER ||
      memcmp(data, magic, sizeof magic) != 0 || number(data + 8, 4) != 1 ||
      number(data + 12, 4) != 0) {
    printf("not a trace\n");
    return 1;
  }
  while (at < size) {
    size_t frame = print_frame(data + at, size - at);
    if (frame == 0) {
      printf("broken %zu\n", at);
      return 1;
    }
    at += frame;
  }
  for (unsigned thread = 0; counting && thread < THREADS; thread++)
    for (unsigned operation = 1; operation < OPERATIONS; operation++)
      if (counts[thread][operation] != 0)
        printf("%u %s %llu\n", thread, names[operation],
               (unsigned long long)counts[thread][operation]);
  fclose(file);
  free(data);
  return 0;
}
