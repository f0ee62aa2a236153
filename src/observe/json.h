/* json.h - one line of JSON, put together without stdio and without allocating. */
#ifndef HAK_OBSERVE_JSON_H
#define HAK_OBSERVE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sheet;

struct json {
  struct sheet *sheet;
  bool needs_comma;
};

/* `name`: of the member; NULL in an array and for the outermost object. Names and texts are written as they
 * are: nothing in them may need an escape. */

/** `bracket`: '{' or '['. */
void json_open(struct json *json, const char *name, char bracket);
/** `bracket`: '}' or ']'. */
void json_close(struct json *json, char bracket);
void json_number(struct json *json, const char *name, uint64_t value);
void json_text(struct json *json, const char *name, const char *value);
void json_bool(struct json *json, const char *name, bool value);
/** Text from outside: what is not printable ASCII becomes '?'. */
void json_foreign_text(struct json *json, const char *name, const char *value);
/** Ends the line. */
void json_end(struct json *json);

#endif
