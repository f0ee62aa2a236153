/* settings.c - see settings.h. */
#define _GNU_SOURCE
#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli.h"
#include "policy/option_text.h"

static const char prefix[] = "HAKMEM_";
enum { PREFIX_LENGTH = sizeof prefix - 1 };

/* By this the library learns what was complained of: names, with | between them. */
static const char told[] = "HAKMEM_TOLD";
enum { MOST_TOLD = 8192 };

/* As in src/policy/options.c: programs of ours that have variables of their own. */
static const char *const foreign_prefixes[] = {"HAKMEM_BENCH_", "HAKMEM_TEST_", "HAKMEM_LAB_"};

/* The system's file, as the library reads it. */
static const char *text_of_file(const char *name) {
  static char text[OPTION_FILE_BYTES + 1];
  static size_t bytes;
  static bool was_read;
  const char *path = getenv(OPTION_FILE_VARIABLE);
  FILE *file = was_read ? NULL : fopen(path != NULL ? path : OPTION_FILE, "r");
  was_read = true;
  if (file != NULL) {
    size_t length = fread(text, 1, OPTION_FILE_BYTES, file);
    fclose(file);
    bytes = option_text_split(text, option_text_whole(text, length), "\n");
  }
  return option_text_find(text, bytes, name);
}

static const char *text_of(const char *name, const char **source) {
  const char *text = getenv(name);
  *source = "environment";
  if (text != NULL) return text;
  *source = "file";
  return text_of_file(name);
}

struct setting setting_of(const struct option_row *option) {
  const struct option_row *profile_option = option_find("HAKMEM_PROFILE");
  const char *source, *name = text_of("HAKMEM_PROFILE", &source);
  long profile = -1;
  if (name != NULL) profile = profile_find(name);
  long balanced = profile_find("balanced");
  if (profile < 0) profile = balanced;
  /* As `hakmem options --effective` says it of a process: a default that the profile has changed. */
  bool of_profile =
      option != profile_option && option->defaults[profile] != option->defaults[balanced];
  struct setting setting = {.value = option->defaults[profile],
                            .source = of_profile ? "profile" : "default"};
  const char *text = text_of(option->name, &source);
  if (text != NULL && option_parse(option, text, &setting.value)) setting.source = source;
  else setting.rejected = text;
  if (option_is_text(option)) setting.text = text;
  const struct option_row *experiment = option_find("HAKMEM_SS_HUGEPAGE_EXPERIMENT");
  if (option == option_find("HAKMEM_SS_HUGEPAGE") && setting_of(experiment).value == 1) {
    option_parse(option, "explicit", &setting.value);
    setting.source = experiment->name;
  }
  return setting;
}

static bool is_strange(const char *name, size_t length) {
  if (length == sizeof told - 1 && memcmp(name, told, length) == 0) return false;
  if (length == sizeof OPTION_FILE_VARIABLE - 1 && memcmp(name, OPTION_FILE_VARIABLE, length) == 0)
    return false;
  for (size_t i = 0; i < sizeof foreign_prefixes / sizeof foreign_prefixes[0]; i++)
    if (strncmp(name, foreign_prefixes[i], strlen(foreign_prefixes[i])) == 0) return false;
  for (size_t i = 0; i < option_count; i++)
    if (strlen(option_table[i].name) == length && memcmp(name, option_table[i].name, length) == 0)
      return false;
  return true;
}

bool stray_next(size_t *position, struct stray *stray) {
  for (; environ != NULL && environ[*position] != NULL; (*position)++) {
    const char *variable = environ[*position];
    size_t length = strcspn(variable, "=");
    if (!is_strange(variable, length)) continue;
    const struct option_row *nearest = option_nearest(variable, length);
    /* Without the prefix, as HAKMEN_PROFILE, only when it is near an option: HA is common ground. */
    if (strncmp(variable, prefix, PREFIX_LENGTH) != 0 &&
        (nearest == NULL || strncasecmp(variable, prefix, 2) != 0))
      continue;
    *stray = (struct stray){.name = variable,
                            .name_length = length,
                            .value = variable[length] == '=' ? variable + length + 1 : "",
                            .nearest = nearest};
    (*position)++;
    return true;
  }
  return false;
}

void print_foreign(FILE *out, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned control = control_bytes(text + i);
    fputc(control > 0 || text[i] == 0 ? '?' : text[i], out);
    if (control == 2) i++;
  }
}

/* Text from outside in a message: as much as fits, in one line. */
struct shown {
  char text[132];
};

static struct shown shown(const char *text, size_t length) {
  struct shown result;
  size_t most = sizeof result.text - 4;
  size_t used = length < most ? length : most;
  for (size_t i = 0; i < used; i++) {
    unsigned char byte = (unsigned char)text[i];
    result.text[i] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
  }
  memcpy(result.text + used, "...", 4);
  if (used == length) result.text[used] = 0;
  return result;
}

/* Is it among the names that were told, or does it become one now? */
static bool is_told(char **names, const char *name, size_t length) {
  for (const char *word = *names; *word != 0;) {
    size_t word_length = strcspn(word, "|");
    if (word_length == length && memcmp(word, name, length) == 0) return true;
    word += word_length + (word[word_length] == '|');
  }
  char *more = NULL;
  /* The kernel takes no variable of 128 KiB; beyond this the library tells, too. */
  if (strlen(*names) + length > MOST_TOLD) return false;
  if (asprintf(&more, "%s%s%.*s", *names, **names != 0 ? "|" : "", (int)length, name) < 0)
    return false; /* told once more than needed */
  free(*names);
  *names = more;
  return false;
}

void settings_complain(void) {
  const char *before = getenv(told);
  char *names = strdup(before != NULL ? before : "");
  if (names == NULL) return; /* the library complains */
  for (size_t i = 0; i < option_count; i++) {
    const struct option_row *option = &option_table[i];
    struct setting setting = setting_of(option);
    if (setting.rejected == NULL || is_told(&names, option->name, strlen(option->name))) continue;
    char value[OPTION_TEXT_SIZE];
    option_text(option, setting.value, value);
    struct shown rejected = shown(setting.rejected, strlen(setting.rejected));
    complain("%s=%s: not understood; accepted: %s (using %s)", option->name, rejected.text,
             option->accepted, value);
  }
  struct stray stray;
  for (size_t position = 0; stray_next(&position, &stray);) {
    if (is_told(&names, stray.name, stray.name_length)) continue;
    struct shown name = shown(stray.name, stray.name_length);
    if (stray.nearest != NULL)
      complain("%s: unknown variable; did you mean %s?", name.text, stray.nearest->name);
    else complain("%s: unknown variable ('hakmem options' lists them)", name.text);
  }
  if (names[0] != 0) setenv(told, names, 1); /* if not, the library complains as well */
  free(names);
}
