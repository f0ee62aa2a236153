/* json.h - one line of JSON, put together without stdio and without allocating. */
#ifndef HAK_OBSERVE_JSON_H
#define HAK_OBSERVE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
  char *text;    /* the caller's, and large enough: what does not fit is dropped */
  size_t room;   /* bytes of it */
  size_t length; /* written so far */
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

/** Writes it and a newline to stderr by one system call, so that lines of several processes do not mix. */
void json_end(struct json *json);

#endif
