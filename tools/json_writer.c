/* json_writer.c - see json_writer.h. */
#include "json_writer.h"

void json_start(struct json *json, const char *name) {
  if (json->comma) fputc(',', json->out);
  json->comma = true;
  if (name != NULL) fprintf(json->out, "\"%s\":", name);
}

void json_open_group(struct json *json, const char *name, char bracket) {
  json_start(json, name);
  fputc(bracket, json->out);
  json->comma = false;
}

void json_close_group(struct json *json, char bracket) {
  fputc(bracket, json->out);
  json->comma = true;
}

void json_number(struct json *json, const char *name, uint64_t value) {
  json_start(json, name);
  fprintf(json->out, "%llu", (unsigned long long)value);
}

void json_bytes(struct json *json, const char *name, double value) {
  json_start(json, name);
  fprintf(json->out, "%.0f", value);
}

void json_boolean(struct json *json, const char *name, bool value) {
  json_start(json, name);
  fputs(value ? "true" : "false", json->out);
}

void json_text(struct json *json, const char *name, const char *value) {
  json_start(json, name);
  fputc('"', json->out);
  for (; *value != 0; value++) {
    if (*value == '"' || *value == '\\') fputc('\\', json->out);
    fputc(*value < ' ' || *value > '~' ? '?' : *value, json->out);
  }
  fputc('"', json->out);
}
