/* options.c - hakmem options: the table of HAKMEM_* variables, for people and for documents. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "option_table.h"

struct arguments {
  char *format; /* NULL: text */
  char *option; /* NULL: all */
  bool current;
};

enum { KEY_FORMAT = 1000, KEY_CURRENT };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default), names, json, markdown or scdoc", 0},
    {"current", KEY_CURRENT, NULL, 0,
     "The values that a program started now would get, and where each comes from", 0},
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
  case ARGP_KEY_ARG:
    if (arguments->option != NULL) return ARGP_ERR_UNKNOWN;
    arguments->option = value;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
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

static void print_json_string(const char *text) {
  putchar('"');
  for (; *text != 0; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar(*text);
  }
  putchar('"');
}

static void print_json(const struct option_row *option, bool first) {
  static const char *const types[] = {"bool", "choice", "number"};
  printf("%s  {\"name\": \"%s\", \"type\": \"%s\", \"accepted\": ", first ? "[\n" : ",\n",
         option->name, types[option->type]);
  print_json_string(option->accepted);
  fputs(", \"defaults\": {", stdout);
  for (int i = 0; i < PROFILE_COUNT; i++) {
    char value[OPTION_TEXT_SIZE];
    option_text(option, option->defaults[i], value);
    printf("%s\"%s\": ", i > 0 ? ", " : "", profile_names[i]);
    if (option->type == OPTION_CHOICE) print_json_string(value);
    else fputs(value, stdout);
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

/* What the environment makes of the option, and who says so. */
static void print_current(const struct option_row *option) {
  const struct option_row *profile_option = option_find("HAKMEM_PROFILE");
  const char *profile_name = getenv("HAKMEM_PROFILE");
  int profile = profile_name != NULL ? profile_find(profile_name) : -1;
  bool profile_set = profile >= 0;
  if (!profile_set) profile = profile_find("balanced");
  char value[OPTION_TEXT_SIZE];
  option_text(option, option->defaults[profile], value);
  const char *set = getenv(option->name);
  if (set != NULL && option_accepts(option, set))
    printf("%s=%s (environment)\n", option->name, set);
  else if (set != NULL)
    printf("%s=%s (%s; '%s' in the environment is not understood)\n", option->name, value,
           profile_set ? "profile" : "default", set);
  else
    printf("%s=%s (%s)\n", option->name, value,
           profile_set && option != profile_option ? "profile" : "default");
}

int command_options(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*print)(const struct option_row *option, bool first);
  } formats[] = {{"text", print_text},
                 {"names", print_name},
                 {"json", print_json},
                 {"markdown", print_markdown},
                 {"scdoc", print_scdoc}};
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0) return EXIT_USAGE;
  if (arguments.option != NULL && option_find(arguments.option) == NULL) {
    complain("no option %s; 'hakmem options --format=names' lists them", arguments.option);
    return EXIT_USAGE;
  }
  const char *wanted = arguments.format != NULL ? arguments.format : "text";
  size_t format = 0;
  size_t format_count = sizeof formats / sizeof formats[0];
  while (format < format_count && strcmp(formats[format].name, wanted) != 0) format++;
  if (format == format_count) {
    complain("--format=%s: unknown; accepted: text|names|json|markdown|scdoc", wanted);
    return EXIT_USAGE;
  }
  bool first = true;
  for (size_t i = 0; i < option_count; i++) {
    const struct option_row *option = &option_table[i];
    if (arguments.option != NULL && option != option_find(arguments.option)) continue;
    if (arguments.current) print_current(option);
    else formats[format].print(option, first);
    first = false;
  }
  if (!arguments.current && strcmp(wanted, "json") == 0) puts("\n]");
  return 0;
}
