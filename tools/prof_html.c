/* prof_html.c - a profile as a flame graph: one file for a browser, which needs nothing else. */
#define _GNU_SOURCE
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "prof.h"

enum { NAME_ROOM = 1024, LIBRARY_ROOM = 256 };

/* flame.html, as it is. */
__asm__(".section .rodata\n"
        "prof_html_page: .incbin \"" HAKMEM_TOOLS "/flame.html\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char prof_html_page[] __attribute__((visibility("hidden")));

/* --- text in it --------------------------------------------------------------------------------------------- */

/* In a script of JSON, where "</script>" would end it. */
static void write_string(const char *text, size_t length, FILE *out) {
  fputc('"', out);
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == '"' || c == '\\')
      fprintf(out, "\\u%04x", c);
    else fputc(c, out);
  }
  fputc('"', out);
}

static void write_escaped(const char *text, size_t length, FILE *out) {
  for (size_t i = 0; i < length; i++) {
    switch (text[i]) {
    case '<':
      fputs("&lt;", out);
      break;
    case '>':
      fputs("&gt;", out);
      break;
    case '&':
      fputs("&amp;", out);
      break;
    default:
      fputc(text[i], out);
    }
  }
}

/* --- names, each once --------------------------------------------------------------------------------------- */

struct names {
  void *tree; /* of struct name */
  unsigned count;
  FILE *out; /* the list of them */
};

/* Of a function and of what it lies in: two libraries may have functions of one name. */
struct name {
  unsigned number;
  char text[]; /* function, 0, library, 0 */
};

static const char *library_in(const struct name *name) {
  return name->text + strlen(name->text) + 1;
}

static int by_texts(const void *a, const void *b) {
  const struct name *one = a;
  const struct name *other = b;
  int order = strcmp(one->text, other->text);
  return order != 0 ? order : strcmp(library_in(one), library_in(other));
}

static void name_library(const struct frame *frame, char *text, size_t room) {
  const char *name = frame->object != NULL ? base_name(frame->object->path)
                     : frame->made         ? "(code made at run time)"
                                           : "(in no file)";
  snprintf(text, room, "%s", name);
  make_printable(text, room);
}

/* 0 also where there is no memory. */
static unsigned number_of(struct names *names, const struct frame *frame) {
  struct name *key = malloc(sizeof *key + NAME_ROOM + LIBRARY_ROOM);
  if (key == NULL) return 0;
  size_t length = strlen(frame_text(frame, true, key->text, NAME_ROOM));
  name_library(frame, key->text + length + 1, LIBRARY_ROOM);
  key->number = names->count;
  struct name **found = tsearch(key, &names->tree, by_texts);
  if (found != NULL && *found == key) {
    fputs(names->count++ > 0 ? ",[" : "[", names->out);
    write_string(key->text, length, names->out);
    fputc(',', names->out);
    write_string(library_in(key), strlen(library_in(key)), names->out);
    fputc(']', names->out);
    return key->number;
  }
  free(key);
  return found != NULL ? (*found)->number : 0;
}

/* --- the file ----------------------------------------------------------------------------------------------- */

static void write_stacks(const struct report *report, struct names *names, FILE *out) {
  bool first = true;
  for (size_t i = 0; i < report->count; i++) {
    const struct row *row = &report->rows[i];
    const struct place *place = row->place;
    if (report->order->view == VIEW_LEAKS && !row->suspect) continue;
    fprintf(out, "%s[%.0f,%.1f", first ? "" : ",\n", row->bytes, row->blocks);
    first = false;
    for (unsigned at = place->depth; at-- > 0;)
      fprintf(out, ",%u", number_of(names, place->frames[at]));
    fputc(']', out);
  }
}

static void write_data(const struct report *report, FILE *out) {
  char *list = NULL;
  size_t length;
  struct names names = {.out = open_memstream(&list, &length)};
  size_t covers = strcspn(report->head, "\n");
  const char *title = report->head + covers + (report->head[covers] != 0);
  fputs("{\"title\":", out);
  write_string(title, strcspn(title, "\n"), out);
  fputs(",\"covers\":", out);
  write_string(report->head, covers, out);
  fputs(",\n\"stacks\":[", out);
  if (names.out != NULL) {
    write_stacks(report, &names, out);
    fclose(names.out);
  }
  fprintf(out, "],\n\"names\":[%s]}", list != NULL ? list : "");
  tdestroy(names.tree, free);
  free(list);
}

static void write_table(const struct report *report, FILE *out) {
  char *text = NULL;
  size_t length;
  FILE *table = open_memstream(&text, &length);
  if (table == NULL) return;
  prof_table(report, table);
  fclose(table);
  if (text != NULL) write_escaped(text, length, out);
  free(text);
}

void prof_html(const struct report *report, FILE *out) {
  static const struct {
    const char *mark;
    void (*write)(const struct report *, FILE *);
  } parts[] = {{"@TABLE@", write_table}, {"@DATA@", write_data}};
  const char *at = prof_html_page;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    const char *mark = strstr(at, parts[i].mark);
    if (mark == NULL) break;
    fwrite(at, 1, (size_t)(mark - at), out);
    parts[i].write(report, out);
    at = mark + strlen(parts[i].mark);
  }
  fputs(at, out);
}
