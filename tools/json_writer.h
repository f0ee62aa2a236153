/* json_writer.h - JSON, one value after the other, on one line. */
#ifndef HAKMEM_JSON_WRITER_H
#define HAKMEM_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
  FILE *out;
  bool comma; /* something stands before it in its group */
};

/* `name`: NULL in a list. */
void json_start(struct json *json, const char *name);
void json_open_group(struct json *json, const char *name, char bracket);
void json_close_group(struct json *json, char bracket);
void json_number(struct json *json, const char *name, uint64_t value);
/** Rounded. */
void json_bytes(struct json *json, const char *name, double value);
void json_boolean(struct json *json, const char *name, bool value);
/** As the library writes it: what is not printable ASCII becomes '?'. */
void json_text(struct json *json, const char *name, const char *value);

#endif
