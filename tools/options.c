/* options.c - hakmem options: the table of HAKMEM_* variables, for people and for documents. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "effective.h"
#include "option_table.h"
#include "settings.h"

struct arguments {
  char *format; /* NULL: text */
  char *option; /* NULL: all */
  bool current;
  char *process; /* NULL: none was named */
};

enum { KEY_FORMAT = 1000, KEY_CURRENT, KEY_EFFECTIVE };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default), names, json, markdown or scdoc", 0},
    {"current", KEY_CURRENT, NULL, 0,
     "The values that a program started now would get, where each comes from, and which variables "
     "are "
     "misspelled",
     0},
    {"effective", KEY_EFFECTIVE, "PID", 0,
     "The values that the process of this number runs with, and where each comes from", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case KEY_FORMAT:
    arguments->format = value;
    return 0;
  case KEY_CURRENT:
    arguments->current = true;
    return 0;
  case KEY_EFFECTIVE:
    arguments->process = value;
    return 0;
  default:
    return take_argument(key, value, &arguments->option);
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "[NAME]",
    .doc = "List the environment variables that the library reads, or the one called NAME.",
};

/* --- one format each ------------------------------------------------------------------------ */

/* The defaults, in words: "64", or "1024 (speed), 64 (balanced), 4 (lean)". */
static void defaults_text(const struct option_row *option, char *text, size_t size) {
  char value[PROFILE_COUNT][OPTION_TEXT_SIZE];
  for (int i = 0; i < PROFILE_COUNT; i++) option_text(option, option->defaults[i], value[i]);
  if (option == option_find("HAKMEM_PROFILE")) snprintf(text, size, "%s", "balanced");
  else if (strcmp(value[0], value[1]) == 0 && strcmp(value[1], value[2]) == 0)
    snprintf(text, size, "%s", value[0]);
  else snprintf(text, size, "%s (speed), %s (balanced), %s (lean)", value[0], value[1], value[2]);
}

static void print_text(const struct option_row *option, bool first) {
  char defaults[256];
  defaults_text(option, defaults, sizeof defaults);
  printf("%s%s=%s\n    %s\n    default: %s\n", first ? "" : "\n", option->name, option->accepted,
         option->help, defaults);
}

static void print_name(const struct option_row *option, bool first) {
  (void)first;
  puts(option->name);
}

/* Length of the UTF-8 character that `text` starts with; 0 when it starts with none. */
static size_t utf8_length(const char *text) {
  unsigned char first = (unsigned char)text[0];
  size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (first > 0xf4) return 0;
  for (size_t i = 1; i < length; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  /* Longer than need be, half of a pair, or beyond the last. */
  unsigned char second = length > 2 ? (unsigned char)text[1] : 0;
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

static void print_json_bytes(const char *text, size_t size) {
  putchar('"');
  for (size_t i = 0; i < size;) {
    size_t length = utf8_length(text + i);
    unsigned char byte = (unsigned char)text[i];
    if (length == 0) fputs("\\ufffd", stdout);
    else if (byte < 0x20 || byte == 0x7f) printf("\\u%04x", byte);
    else if (byte == '"' || byte == '\\') printf("\\%c", byte);
    else fwrite(text + i, 1, length, stdout);
    i += length > 0 ? length : 1;
  }
  putchar('"');
}

static void print_json_string(const char *text) { print_json_bytes(text, strlen(text)); }

static void print_json_value(const struct option_row *option, long value) {
  char text[OPTION_TEXT_SIZE];
  option_text(option, value, text);
  if (option_is_text(option)) fputs("null", stdout);
  else if (option->type == OPTION_CHOICE) print_json_string(text);
  else fputs(text, stdout);
}

static void print_json(const struct option_row *option, bool first) {
  static const char *const types[] = {
      [OPTION_BOOL] = "bool",   [OPTION_CHOICE] = "choice",       [OPTION_NUMBER] = "number",
      [OPTION_BYTES] = "bytes", [OPTION_KBYTES] = "KiB",          [OPTION_MBYTES] = "MiB",
      [OPTION_PATH] = "path",   [OPTION_DIRECTORY] = "directory", [OPTION_SIGNAL] = "signal"};
  printf("%s  {\"name\": \"%s\", \"type\": \"%s\", \"accepted\": ", first ? "[\n" : ",\n",
         option->name, types[option->type]);
  print_json_string(option->accepted);
  fputs(", \"defaults\": {", stdout);
  for (int i = 0; i < PROFILE_COUNT; i++) {
    printf("%s\"%s\": ", i > 0 ? ", " : "", profile_names[i]);
    print_json_value(option, option->defaults[i]);
  }
  fputs("}, \"help\": ", stdout);
  print_json_string(option->help);
  putchar('}');
}

static void print_markdown(const struct option_row *option, bool first) {
  if (first) puts("| Variable | Accepted | Default | What it does |\n|---|---|---|---|");
  char defaults[256];
  defaults_text(option, defaults, sizeof defaults);
  printf("| `%s` | ", option->name);
  /* a | inside a cell has to be escaped, even in code */
  putchar('`');
  for (const char *c = option->accepted; *c != 0; c++) printf(*c == '|' ? "\\|" : "%c", *c);
  printf("` | %s | %s |\n", defaults, option->help);
}

/* Text for scdoc, which gives * _ # and \ a meaning. */
static void print_scdoc_text(const char *text) {
  for (; *text != 0; text++) {
    if (strchr("*_#\\", *text) != NULL) putchar('\\');
    putchar(*text);
  }
}

static void print_scdoc(const struct option_row *option, bool first) {
  char defaults[256];
  defaults_text(option, defaults, sizeof defaults);
  printf("%s*", first ? "" : "\n");
  print_scdoc_text(option->name);
  fputs("*=", stdout);
  print_scdoc_text(option->accepted);
  fputs("\n\t", stdout);
  print_scdoc_text(option->help);
  fputs(".\n\n\tDefault: ", stdout);
  print_scdoc_text(defaults);
  puts(".");
}

/* --- what the environment makes of them ----------------------------------------------------- */

static void print_current_text(const struct option_row *option, bool first) {
  (void)first;
  struct setting setting = setting_of(option);
  char value[OPTION_TEXT_SIZE];
  option_text(option, setting.value, value);
  printf("%s=", option->name);
  const char *shown = setting.text != NULL ? setting.text : value;
  print_foreign(stdout, shown, strlen(shown));
  printf(" (%s", setting.source);
  if (setting.rejected != NULL) {
    fputs("; '", stdout);
    print_foreign(stdout, setting.rejected, strlen(setting.rejected));
    fputs("' in the environment is not understood", stdout);
  }
  puts(")");
}

static void print_stray_text(const struct stray *stray, bool first) {
  (void)first;
  print_foreign(stdout, stray->name, stray->name_length);
  putchar('=');
  print_foreign(stdout, stray->value, strlen(stray->value));
  if (stray->nearest != NULL)
    printf(" (unknown variable; did you mean %s?)\n", stray->nearest->name);
  else puts(" (unknown variable)");
}

static void print_current_json(const struct option_row *option, bool first) {
  struct setting setting = setting_of(option);
  printf("%s  {\"name\": \"%s\", \"value\": ", first ? "[\n" : ",\n", option->name);
  if (setting.text != NULL) print_json_string(setting.text);
  else print_json_value(option, setting.value);
  printf(", \"source\": \"%s\", \"rejected\": ", setting.source);
  if (setting.rejected != NULL) print_json_string(setting.rejected);
  else fputs("null", stdout);
  putchar('}');
}

static void print_stray_json(const struct stray *stray, bool first) {
  printf("%s  {\"name\": ", first ? "[\n" : ",\n");
  print_json_bytes(stray->name, stray->name_length);
  fputs(", \"value\": null, \"source\": \"unknown\", \"rejected\": ", stdout);
  print_json_string(stray->value);
  if (stray->nearest != NULL) printf(", \"nearest\": \"%s\"", stray->nearest->name);
  putchar('}');
}

static void print_stray_name(const struct stray *stray, bool first) {
  (void)first;
  print_foreign(stdout, stray->name, stray->name_length);
  putchar('\n');
}

/* --- the command ------------------------------------------------------------------------------ */

struct format {
  const char *name;
  void (*print)(const struct option_row *option, bool first);
  /* With --current; NULL: there is none. */
  void (*print_current)(const struct option_row *option, bool first);
  void (*print_stray)(const struct stray *stray, bool first);
};

static const struct format formats[] = {
    {"text", print_text, print_current_text, print_stray_text},
    {"names", print_name, print_name, print_stray_name},
    {"json", print_json, print_current_json, print_stray_json},
    {"markdown", print_markdown, NULL, NULL},
    {"scdoc", print_scdoc, NULL, NULL},
};
enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

static const struct format *find_format(const char *name, bool current) {
  for (size_t i = 0; i < FORMAT_COUNT; i++) {
    if (strcmp(formats[i].name, name) != 0) continue;
    if (!current || formats[i].print_current != NULL) return &formats[i];
    complain("--format=%s: not with --current; accepted: text|names|json", name);
    return NULL;
  }
  complain("--format=%s: unknown; accepted: text|names|json|markdown|scdoc", name);
  return NULL;
}

static void complain_of_name(const char *name) {
  const struct option_row *nearest = option_nearest(name, strlen(name));
  if (nearest != NULL) complain("no option %s; did you mean %s?", name, nearest->name);
  else complain("no option %s; 'hakmem options --format=names' lists them", name);
}

int command_options(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0) return EXIT_USAGE;
  const struct option_row *only = NULL;
  if (arguments.option != NULL && (only = option_find(arguments.option)) == NULL) {
    complain_of_name(arguments.option);
    return EXIT_USAGE;
  }
  const char *name = arguments.format != NULL ? arguments.format : "text";
  const struct format *format = find_format(name, arguments.current);
  if (format == NULL) return EXIT_USAGE;
  if (arguments.process != NULL) {
    if (arguments.current) {
      complain("--effective and --current exclude each other");
      return EXIT_USAGE;
    }
    if (strcmp(name, "text") != 0 && strcmp(name, "json") != 0) {
      complain("--format=%s: not with --effective; accepted: text|json", name);
      return EXIT_USAGE;
    }
    return effective_options(arguments.process, only, strcmp(name, "json") == 0);
  }
  bool first = true;
  for (size_t i = 0; i < option_count; i++) {
    if (only != NULL ? only != &option_table[i] : !option_is_listed(&option_table[i])) continue;
    (arguments.current ? format->print_current : format->print)(&option_table[i], first);
    first = false;
  }
  struct stray stray;
  for (size_t position = 0; arguments.current && only == NULL && stray_next(&position, &stray);)
    format->print_stray(&stray, first);
  if (strcmp(name, "json") == 0) puts("\n]");
  return 0;
}
