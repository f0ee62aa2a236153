/* json.c - see json.h. */
#include "observe/json.h"

#include <string.h>

#include "observe/sheet.h"

static void put(struct json *json, const char *text, size_t length) {
  sheet_put(json->sheet, text, length);
}

static void put_text(struct json *json, const char *text) { put(json, text, strlen(text)); }

static void start_value(struct json *json, const char *name) {
  if (json->needs_comma) put_text(json, ",");
  json->needs_comma = true;
  if (name == NULL) return;
  put_text(json, "\"");
  put_text(json, name);
  put_text(json, "\":");
}

void json_open(struct json *json, const char *name, char bracket) {
  start_value(json, name);
  put(json, &bracket, 1);
  json->needs_comma = false;
}

void json_close(struct json *json, char bracket) {
  put(json, &bracket, 1);
  json->needs_comma = true;
}

void json_number(struct json *json, const char *name, uint64_t value) {
  struct report digits;
  start_value(json, name);
  report_start_bare(&digits);
  report_number(&digits, value);
  put(json, digits.text, digits.length);
}

void json_text(struct json *json, const char *name, const char *value) {
  start_value(json, name);
  put_text(json, "\"");
  put_text(json, value);
  put_text(json, "\"");
}

void json_bool(struct json *json, const char *name, bool value) {
  start_value(json, name);
  put_text(json, value ? "true" : "false");
}

void json_foreign_text(struct json *json, const char *name, const char *value) {
  start_value(json, name);
  put_text(json, "\"");
  for (; *value != 0; value++) {
    if (*value == '"' || *value == '\\') put_text(json, "\\");
    put(json, *value < ' ' || *value > '~' ? "?" : value, 1);
  }
  put_text(json, "\"");
}

void json_end(struct json *json) { put_text(json, "\n"); }
