/* options.c - parses what sources.h gives into option_values. */
#include "policy/options.h"

#include <stddef.h>
#include <string.h>

#include "observe/report.h"
#include "os/os.h"
#include "os/text.h"
#include "policy/option_text.h"
#include "policy/sources.h"

#if HAK_FAST

void options_read(void) {}

const char *option_stats_file(void) { return ""; }
const char *option_blackbox(void) { return ""; }

#else

int32_t option_values[OPTION_COUNT] HAK_START_DATA;
uint8_t option_sources[OPTION_COUNT] HAK_START_DATA;

enum option_type { BOOL, CHOICE, NUMBER, BYTES, KBYTES, MBYTES, PATH, DIRECTORY, SIGNAL };

const struct option option_table[OPTION_COUNT] = {
#define HAK_OPTION(id, name, type, speed, balanced, lean, low, high, accepted, help)               \
  {name, accepted, type, {speed, balanced, lean}, low, high},
#include "policy/options.def"
#undef HAK_OPTION
};

static const char prefix[] = "HAKMEM_";

/* Names of our own programs (benchmarks, tests, the lab), which the library has no say in. */
static const char foreign_prefixes[][16] = {"HAKMEM_BENCH_", "HAKMEM_TEST_", "HAKMEM_LAB_"};

/* Names, as words of "a|b|c", that `hakmem run` has complained of: the processes of its program need not. */
static const char told[] = "HAKMEM_TOLD";

/* Upper and lower case are one, whatever the locale. */
static bool same_text(const char *a, const char *b, size_t length) {
  for (size_t i = 0; i < length; i++) {
    char folded = (char)(a[i] | 0x20);
    if (a[i] != b[i] && (folded != (b[i] | 0x20) || folded < 'a' || folded > 'z')) return false;
  }
  return true;
}

/* Position of the first `length` bytes of `value` among the words of "a|b|c", or -1. */
static int32_t find_word(const char *words, const char *value, size_t length) {
  for (int32_t index = 0;; index++) {
    const char *end = text_find(words, '|');
    size_t word_length = end != NULL ? (size_t)(end - words) : text_length(words);
    if (word_length == length && same_text(words, value, length)) return index;
    if (end == NULL) return -1;
    words = end + 1;
  }
}

/* By how many bits a letter behind a number moves it: K, M, G; 0: it is none. */
static unsigned shift_of(char letter) {
  enum { KIB_SHIFT = 10 };
  const char *const letters = "kmg", *found = strchr(letters, letter | 0x20);
  return found != NULL && *found != 0 ? (unsigned)(found - letters + 1) * KIB_SHIFT : 0;
}

static bool is_number(const struct option *option) {
  return option->type >= NUMBER && option->type <= MBYTES;
}

/* A size may be told in its option's unit, or with a letter: HAKMEM_WARM_POOL_MB=64, 64M or 1G. */
static bool parse_number(const struct option *option, const char *text, int32_t *out) {
  int64_t value = 0;
  if (*text < '0' || *text > '9') return false;
  for (; *text >= '0' && *text <= '9'; text++) {
    value = value * 10 + (*text - '0');
    if (value > INT32_MAX) return false;
  }
  if (*text != 0) {
    unsigned shift = shift_of(*text), unit = (unsigned)(option->type - BYTES) * 10;
    if (option->type == NUMBER || shift == 0 || text[1] != 0) return false;
    value <<= shift;
    if ((value & ((INT64_C(1) << unit) - 1)) != 0) return false;
    value >>= unit;
  }
  if (value < option->low || value > option->high) return false;
  *out = (int32_t)value;
  return true;
}

/* Copies: programs change their environment, and write over it. */
enum { PATH_ROOM = 1024 };
static char stats_file[PATH_ROOM], blackbox[PATH_ROOM];

const char *option_stats_file(void) { return stats_file; }
const char *option_blackbox(void) { return blackbox; }

/* Only names of files have a % that means something. */
static bool has_process(const struct option *option) { return option->type == PATH; }

static bool parse_path(const struct option *option, const char *text, int32_t *out) {
  char *path = has_process(option) ? stats_file : blackbox;
  for (const char *at = text; has_process(option) && (at = text_find(at, '%')) != NULL; at += 2)
    if (at[1] != 'p' && at[1] != '%') return false;
  size_t length = text_length(text), used = 0;
  if (length == 0 || length >= PATH_ROOM) return false;
  /* The program may go elsewhere. A % of the directory's own would be taken for one of the user's. */
  if (text[0] != '/') used = os_working_directory(path, PATH_ROOM - length - 1);
  if (used > 0 && has_process(option) && text_find(path, '%') != NULL) used = 0;
  if (used > 0 && path[used - 1] != '/') path[used++] = '/';
  memcpy(path + used, text, length + 1);
  *out = 1;
  return true;
}

static bool parse_signal(const char *text, int32_t *out) {
  int32_t number = os_signal_number(text);
  if (number > 0) *out = number;
  return number > 0;
}

static bool parse(const struct option *option, const char *text, int32_t *out) {
  if (is_number(option)) return parse_number(option, text, out);
  if (option->type == PATH || option->type == DIRECTORY) return parse_path(option, text, out);
  if (option->type == SIGNAL) return parse_signal(text, out);
  int32_t index = find_word(option->accepted, text, text_length(text));
  if (index < 0 && option == &option_table[OPTION_PROFILE])
    index = find_word(OLD_PROFILES, text, text_length(text));
  if (index < 0) return false;
  *out = index;
  return true;
}

/* The default as a user would write it. */
static void append_value(struct report *line, const struct option *option, int32_t value) {
  if (option->type >= PATH) {
    report_text(line, "none");
    return;
  }
  if (is_number(option)) {
    report_number(line, (uint64_t)value);
    return;
  }
  const char *word = option->accepted;
  for (int32_t i = 0; i < value; i++) word = text_find(word, '|') + 1;
  const char *end = text_find(word, '|');
  report_bytes(line, word, end != NULL ? (size_t)(end - word) : text_length(word));
}

static bool is_told(const char *variable, size_t name_length) {
  const char *names = os_env(told);
  return names != NULL && find_word(names, variable, name_length) >= 0;
}

static void complain(const struct option *option, const char *text, enum option_source source,
                     int32_t fallback) {
  if (source == SOURCE_ENVIRONMENT && is_told(option->name, text_length(option->name))) return;
  struct report line;
  report_start(&line);
  report_text(&line, option->name);
  report_text(&line, "=");
  report_foreign_text(&line, text, text_length(text));
  report_text(&line, source_place(source));
  report_text(&line, ": not understood; accepted: ");
  report_text(&line, option->accepted);
  if (has_process(option))
    report_text(&line, ", where %p stands for the number of the process and %% for %");
  report_text(&line, " (using the default, ");
  append_value(&line, option, fallback);
  report_text(&line, ")");
  report_end(&line);
}

static void read_option(enum option_id id, int32_t fallback) {
  enum option_source source;
  const char *text = source_text(option_table[id].name, &source);
  option_values[id] = fallback;
  option_sources[id] = SOURCE_DEFAULT;
  if (text == NULL) return;
  if (parse(&option_table[id], text, &option_values[id])) option_sources[id] = (uint8_t)source;
  else complain(&option_table[id], text, source, fallback);
}

static bool is_known(const char *variable, size_t name_length) {
  for (size_t i = 0; i < sizeof foreign_prefixes / sizeof foreign_prefixes[0]; i++)
    if (text_begins(variable, foreign_prefixes[i], text_length(foreign_prefixes[i]))) return true;
  for (int id = 0; id < OPTION_COUNT; id++)
    if (text_length(option_table[id].name) == name_length &&
        text_begins(variable, option_table[id].name, name_length))
      return true;
  if (name_length == sizeof told - 1 && text_begins(variable, told, name_length)) return true;
  if (name_length == sizeof OPTION_FILE_VARIABLE - 1 &&
      text_begins(variable, OPTION_FILE_VARIABLE, name_length))
    return true;
  return is_told(variable, name_length);
}

static void say_unknown(const char *name, size_t length, const char *place) {
  struct report line;
  report_start(&line);
  report_foreign_text(&line, name, length);
  report_text(&line, place);
  report_text(&line, ": unknown option (see 'hakmem options')");
  report_end(&line);
}

static void warn_of_unknown_lines(void) {
  enum option_source source;
  const char *line;
  for (size_t position = 0; (line = source_line(&position, &source)) != NULL;) {
    const char *end = text_find(line, '=');
    size_t length = end != NULL ? (size_t)(end - line) : text_length(line);
    if (line[length] != '=' || !is_known(line, length))
      say_unknown(line, length, source_place(source));
  }
}

static void warn_of_unknown(void) {
  for (char **variable = os_environment(); variable != NULL && *variable != NULL; variable++) {
    if (!text_begins(*variable, prefix, sizeof prefix - 1)) continue;
    const char *end = text_find(*variable, '=');
    size_t length = end != NULL ? (size_t)(end - *variable) : text_length(*variable);
    if (!is_known(*variable, length)) say_unknown(*variable, length, "");
  }
}

/* What the statistics options mean together. */
static void prepare_statistics(void) {
  if ((option_value(STATS_FILE) || option_value(STATS_SIGNAL)) && !option_printing())
    option_values[OPTION_STATS] = STATS_JSON;
  if (option_printing()) os_keep_stderr();
  if (option_value(STATS_SIGNAL) == 0 || os_catch_signal(option_value(STATS_SIGNAL))) return;
  struct report line;
  report_start(&line);
  report_text(&line, "HAKMEM_STATS_SIGNAL: the program has a handler for signal ");
  report_number(&line, (uint64_t)option_value(STATS_SIGNAL));
  report_text(&line, " already, or the system refuses ours");
  report_end(&line);
}

/* What was asked for is not there: the option is as good as off, and one line says so. */
static void say_without(enum option_id id, const char *why) {
  struct report line;
  const char *name = option_table[id].name;
  if (option_values[id] == 0) return;
  option_values[id] = 0;
  if (is_told(name, text_length(name))) return;
  report_start(&line);
  report_text(&line, name);
  report_text(&line, why);
  report_end(&line);
}

void options_read(void) {
  bool secure = os_is_secure();
  sources_open(secure);
  read_option(OPTION_PROFILE, PROFILE_BALANCED);
  int32_t profile = option_values[OPTION_PROFILE];
  for (int id = 0; id < OPTION_COUNT; id++)
    if (id != OPTION_PROFILE) read_option((enum option_id)id, option_table[id].defaults[profile]);
  if (option_value(SS_HUGEPAGE_EXPERIMENT)) option_values[OPTION_SS_HUGEPAGE] = HUGEPAGE_EXPLICIT;
  /* A security team that asks for checks has to know that there are none. */
  if (!HAK_HARDENED)
    say_without(OPTION_GUARD, ": only the hardened library has such checks; none are made");
  /* Nobody else may write it while the program allocates. */
  if (option_value(BLACKBOX) && option_sources[OPTION_BACKGROUND] == SOURCE_DEFAULT)
    option_values[OPTION_BACKGROUND] = BACKGROUND_ALWAYS;
  say_without(OPTION_LEARN, ": does nothing any more");
  prepare_statistics();
  warn_of_unknown_lines();
  if (!secure) warn_of_unknown();
}

#endif
