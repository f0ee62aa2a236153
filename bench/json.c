/* json.c - documents read into trees and written out again.
 *
 * For each document a buffer of SIZE bytes holds the text, and a tree of values is built from it:
 * objects and arrays whose tables grow by realloc, strings, numbers. Then the tree is walked into an
 * output buffer that doubles up to SIZE bytes, and all of it is freed. Shares of kinds and lengths
 * are drawn, nothing is parsed: what is measured is the allocator. A document is an operation.
 *
 * What it shows: many small blocks and tables that grow among buffers of 64 KiB, the size at which
 * an allocator's small and large blocks meet.
 */
#define _GNU_SOURCE
#include "harness.h"

#define MAX_DEPTH 8

enum kind { KIND_NUMBER, KIND_STRING, KIND_ARRAY, KIND_OBJECT };

struct value {
  enum kind kind;
  uint32_t count, capacity; /* of items */
  char *key;                /* member of an object; else NULL */
  union {
    uint64_t number;
    char *string;
    struct value **items;
  };
};

struct settings {
  uint64_t threads, documents, size;
};

struct reader {
  uint64_t random;
  int64_t left; /* bytes of text not read yet */
};

static char *read_string(struct reader *reader, uint64_t longest) {
  uint64_t draw = bench_draw(&reader->random);
  size_t length = 1 + bench_below(bench_high(draw), longest);
  /* One string in 16 is a text. */
  if ((draw & 15) == 0) length *= 16;
  char *string = bench_malloc(length + 1);
  memset(string, 'a' + (char)(draw >> 8) % 16, length);
  string[length] = 0;
  reader->left -= (int64_t)length + 3;
  return string;
}

static struct value *read_value(struct reader *reader, int depth);

static void append(struct value *value, struct value *item) {
  if (value->count == value->capacity) {
    value->capacity = value->capacity != 0 ? value->capacity * 2 : 4;
    size_t bytes = value->capacity * sizeof(struct value *);
    value->items = bench_check(realloc(value->items, bytes), bytes);
  }
  value->items[value->count++] = item;
}

static void read_items(struct reader *reader, struct value *value, uint64_t count, int depth) {
  for (uint64_t i = 0; i < count && reader->left > 0; i++) {
    char *key = value->kind == KIND_OBJECT ? read_string(reader, 12) : NULL;
    struct value *item = read_value(reader, depth + 1);
    item->key = key;
    append(value, item);
  }
}

static struct value *read_value(struct reader *reader, int depth) {
  uint64_t draw = bench_draw(&reader->random);
  struct value *value = bench_malloc(sizeof *value);
  *value = (struct value){.kind = KIND_NUMBER};
  reader->left -= 2;
  unsigned share = draw % 16;
  if (depth == 0 || (share < 4 && depth < MAX_DEPTH)) {
    /* The outermost array takes all there is. */
    value->kind = depth == 0 || share == 0 ? KIND_ARRAY : KIND_OBJECT;
    uint64_t count = depth == 0 ? UINT64_MAX : 1 + bench_below(bench_high(draw), 12);
    read_items(reader, value, count, depth);
  } else if (share < 11) {
    value->kind = KIND_STRING;
    value->string = read_string(reader, 24);
  } else {
    value->number = draw >> 32;
    reader->left -= 8;
  }
  return value;
}

struct writer {
  char *bytes;
  size_t size, capacity, limit;
};

static void put(struct writer *writer, const char *bytes, size_t size) {
  if (writer->size + size > writer->limit) return;
  while (writer->size + size > writer->capacity) {
    writer->capacity = writer->capacity != 0 ? writer->capacity * 2 : BENCH_PAGE;
    writer->bytes = bench_check(realloc(writer->bytes, writer->capacity), writer->capacity);
  }
  memcpy(writer->bytes + writer->size, bytes, size);
  writer->size += size;
}

static void write_value(struct writer *writer, const struct value *value) {
  if (value->key != NULL) put(writer, value->key, strlen(value->key));
  switch (value->kind) {
  case KIND_NUMBER:
    put(writer, (const char *)&value->number, sizeof value->number);
    break;
  case KIND_STRING:
    put(writer, value->string, strlen(value->string));
    break;
  default:
    put(writer, "[", 1);
    for (uint32_t i = 0; i < value->count; i++) write_value(writer, value->items[i]);
    put(writer, "]", 1);
  }
}

static void free_value(struct value *value) {
  if (value->kind == KIND_STRING) free(value->string);
  if (value->kind >= KIND_ARRAY) {
    for (uint32_t i = 0; i < value->count; i++) free_value(value->items[i]);
    free(value->items);
  }
  free(value->key);
  free(value);
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  worker->operations = bench_share(settings->documents, settings->threads, worker->index);
  struct reader reader = {.random = worker->random};
  for (uint64_t i = 0; i < worker->operations; i++) {
    char *text = bench_malloc(settings->size);
    bench_touch(text, settings->size, (char)i);
    reader.left = (int64_t)settings->size;
    struct value *root = read_value(&reader, 0);
    free(text);
    struct writer writer = {.limit = settings->size};
    write_value(&writer, root);
    for (size_t k = 0; k < writer.size; k += 64) worker->checksum += (unsigned char)writer.bytes[k];
    free_value(root);
    free(writer.bytes);
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"DOCUMENTS", "documents of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SIZE", "text of a document, bytes", 1, BENCH_MAX_SIZE, NULL, "65536"},
      BENCH_SEED,
  };
  uint64_t values[4];
  bench_arguments(argc, argv, "Documents read into trees and written out again.", arguments, 4,
                  values);
  struct settings settings = {.threads = values[0], .documents = values[1], .size = values[2]};
  struct bench_result result = bench_run(settings.threads, work, &settings, values[3]);
  bench_report(&result);
  return 0;
}
