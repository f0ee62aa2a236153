/* effective.c - see effective.h. */
#include "effective.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "json_writer.h"
#include "processes.h"
#include "remote.h"

/* In the order of enum option_source (policy/sources.h). */
static const char *const source_names[] = {"default", "program", "file", "environment"};

static const char *source_of(const struct remote *remote, uint32_t number, bool of_profile) {
  uint8_t source = 0;
  if (remote->option_sources == 0 ||
      !remote_read(remote, remote->option_sources + number, &source, sizeof source) ||
      source >= sizeof source_names / sizeof source_names[0])
    return "unknown";
  return source == 0 && of_profile ? "profile" : source_names[source];
}

static void print(const struct option_row *option, int32_t value, const char *source,
                  struct json *json) {
  char text[OPTION_TEXT_SIZE];
  if (option_is_text(option)) snprintf(text, sizeof text, "%s", value != 0 ? "set" : "none");
  else option_text(option, value, text);
  if (json->out == NULL) {
    printf("%s=%s (%s)\n", option->name, text, source);
    return;
  }
  json_open_group(json, NULL, '{');
  json_text(json, "name", option->name);
  json_text(json, "value", text);
  json_text(json, "source", source);
  json_close_group(json, '}');
}

/* By the process's own table: it may be of another release. */
static int print_all(const struct remote *remote, const struct option_row *only,
                     struct json *json) {
  const struct directory_layout *layout = &remote->layout;
  int32_t profile = 1, value = 0;
  char name[64];
  size_t bytes = layout->options.name.bytes;
  if (remote->option_table == 0 || bytes == 0 || bytes > sizeof name ||
      !remote_option(remote, "HAKMEM_PROFILE", &profile)) {
    complain("process %d (%s) has read no options yet, or its build (%s) has none", remote->pid,
             remote->program, layout->variant);
    return EXIT_CANNOT_RUN;
  }
  if (json->out != NULL) json_open_group(json, NULL, '[');
  for (uint32_t i = 0; i < layout->options.count; i++) {
    uint64_t row = remote->option_table + (uint64_t)i * layout->options.stride;
    if (!remote_read(remote, row + layout->options.name.at, name, bytes) ||
        !remote_read(remote, remote->option_values + i * sizeof value, &value, sizeof value))
      break;
    name[bytes - 1] = 0;
    const struct option_row *option = option_find(name);
    if (option == NULL || (only != NULL ? option != only : !option_is_listed(option))) continue;
    bool differs =
        profile >= 0 && profile < PROFILE_COUNT && option->defaults[profile] != option->defaults[1];
    print(option, value, source_of(remote, i, differs), json);
  }
  if (json->out != NULL) {
    json_close_group(json, ']');
    putchar('\n');
  }
  return 0;
}

int effective_options(char *process, const struct option_row *only, bool as_json) {
  struct remote remote;
  struct json json = {.out = as_json ? stdout : NULL};
  int error = remote_open_words(&remote, &(struct words){&process, 1});
  if (error != 0) return error;
  /* The page that it keeps has no options. */
  return remote.shared ? remote_refuse(&remote) : print_all(&remote, only, &json);
}
