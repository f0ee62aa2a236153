/* sources.c - see sources.h. */
#include "policy/sources.h"

#include "os/file.h"
#include "os/os.h"
#include "policy/option_text.h"

#if !HAK_FAST

/* Defined by a program that wants to: const char *hakmem_options = "HAKMEM_PROFILE=lean,HAKMEM_BACKGROUND=0"; */
extern const char *hakmem_options __attribute__((weak, visibility("default")));

enum { PROGRAM_BYTES = 1024 };
static char program_text[PROGRAM_BYTES + 1], file_text[OPTION_FILE_BYTES + 1];
static size_t program_bytes, file_bytes;
static bool environment_counts;

static void read_program(void) {
  if (&hakmem_options == NULL || hakmem_options == NULL) return;
  size_t length = text_length_within(hakmem_options, PROGRAM_BYTES + 1);
  /* Of a longer text what ends in time counts: half a value would be another one. */
  bool ends = length <= PROGRAM_BYTES;
  while (!ends && --length > 0)
    ends = hakmem_options[length - 1] == ',' || hakmem_options[length - 1] == '\n';
  for (size_t i = 0; i < length; i++) program_text[i] = hakmem_options[i];
  program_bytes = option_text_split(program_text, length, ",\n");
}

static void read_file(const char *path) {
  if (path[0] == 0) return;
  int file = os_file_open(path, OS_FILE_READ);
  if (file < 0) return;
  size_t length = 0;
  for (ptrdiff_t got;
       length < OPTION_FILE_BYTES &&
       (got = os_file_read(file, file_text + length, OPTION_FILE_BYTES - length)) > 0;)
    length += (size_t)got;
  os_file_close(file);
  file_bytes = option_text_split(file_text, option_text_whole(file_text, length), "\n");
}

void sources_open(bool secure) {
  environment_counts = !secure;
  read_program();
  const char *other = secure ? NULL : os_env(OPTION_FILE_VARIABLE);
  read_file(other != NULL ? other : OPTION_FILE);
}

const char *source_text(const char *name, enum option_source *source) {
  const char *text = environment_counts ? os_env(name) : NULL;
  *source = SOURCE_ENVIRONMENT;
  if (text == NULL) {
    text = option_text_find(file_text, file_bytes, name);
    *source = SOURCE_FILE;
  }
  if (text == NULL) {
    text = option_text_find(program_text, program_bytes, name);
    *source = SOURCE_PROGRAM;
  }
  if (text == NULL) *source = SOURCE_DEFAULT;
  return text;
}

const char *source_place(enum option_source source) {
  return source == SOURCE_FILE      ? " (in the system's file of options)"
         : source == SOURCE_PROGRAM ? " (in the program's hakmem_options)"
                                    : "";
}

const char *source_line(size_t *position, enum option_source *source) {
  const char *line = NULL;
  if (*position < file_bytes) {
    line = file_text + *position;
    *source = SOURCE_FILE;
  } else if (*position < file_bytes + program_bytes) {
    line = program_text + (*position - file_bytes);
    *source = SOURCE_PROGRAM;
  }
  if (line != NULL) *position += text_length(line) + 1;
  return line;
}

#endif

typedef int sources_translation_unit_is_not_empty;
