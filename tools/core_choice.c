/* core_choice.c - see core_choice.h. */
#include "core_choice.h"

#include <string.h>
#include <sys/stat.h>

#include "cli.h"

enum { KEY_CORE = 2000, KEY_ROOT, KEY_DEBUG_DIR };

static const struct argp_option options[] = {
    {0, 0, 0, 0, "of a core file:", 1},
    {"core", KEY_CORE, "FILE", 0, "read this core file instead of a process", 0},
    {"root", KEY_ROOT, "DIR", 0, "the files of its process lie below DIR, as /lib/libc.so.6 there",
     0},
    {"debug-dir", KEY_DEBUG_DIR, "DIR", 0,
     "files and debugging information lie also in DIR, by build-id or by name", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct core_choice *choice = state->input;
  switch (key) {
  case KEY_CORE:
    choice->core = value;
    return 0;
  case KEY_ROOT:
    choice->places.root = value;
    return 0;
  case KEY_DEBUG_DIR:
    choice->places.debug_dir = value;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp core_argp = {.options = options, .parser = parse};
const struct argp_child core_children[] = {{&core_argp, 0, NULL, 0}, {0}};

bool core_is_chosen(struct core_choice *choice, const struct words *words) {
  const char *word = words->count == 1 ? words->all[0] : "";
  if (choice->core == NULL && (strchr(word, '/') != NULL || core_is_file(word)))
    choice->core = word;
  return choice->core != NULL;
}

int core_refuse_choice(struct core_choice *choice, const struct words *words) {
  bool chosen = core_is_chosen(choice, words);
  bool twice = chosen && words->count > 0 && words->all[0] != choice->core;
  bool places = choice->places.root != NULL || choice->places.debug_dir != NULL;
  if (twice) complain("either a core file or a process: '%s' stands beside --core", words->all[0]);
  else if (!chosen && places) complain("--root and --debug-dir are for a core file");
  return twice || (!chosen && places) ? EXIT_USAGE : 0;
}

int remote_open_chosen(struct remote *remote, struct core_choice *choice,
                       const struct words *words) {
  memset(remote, 0, sizeof *remote);
  int code = core_refuse_choice(choice, words);
  if (code != 0) return code;
  return core_is_chosen(choice, words) ? remote_open_core(remote, choice->core, &choice->places)
                                       : remote_open_words(remote, words);
}
