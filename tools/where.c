/* where.c - hakmem where: what addresses in a process or in a core are. */
#include "where.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "core_choice.h"
#include "json_writer.h"
#include "stats.h"

enum { ADDRESSES_MOST = 64, KEY_FORMAT = 1000 };

struct arguments {
  char *format;
  bool is_json;
  struct core_choice core;
  uint64_t addresses[ADDRESSES_MOST];
  unsigned count;
  char *word; /* the process; NULL: none was named */
};

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {0},
};

/* Addresses begin with 0x, so that no number of a process is one. */
static error_t take_word(struct arguments *arguments, char *word) {
  char *end;
  if (strncmp(word, "0x", 2) != 0 && strncmp(word, "0X", 2) != 0) {
    if (arguments->word != NULL) {
      complain("'%s' is no address, which begins with 0x, and a process was named before: '%s'",
               word, arguments->word);
      return EINVAL;
    }
    arguments->word = word;
    return 0;
  }
  errno = 0;
  uint64_t address = strtoull(word, &end, 16);
  if (errno != 0 || *end != 0 || end == word + 2 || arguments->count == ADDRESSES_MOST) {
    complain(arguments->count == ADDRESSES_MOST ? "more than 64 addresses, from '%s' on"
                                                : "'%s' is no address",
             word);
    return EINVAL;
  }
  arguments->addresses[arguments->count++] = address;
  return 0;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &arguments->core;
    return 0;
  case KEY_FORMAT:
    arguments->format = value;
    return 0;
  case ARGP_KEY_ARG:
    return take_word(arguments, value);
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .children = core_children,
    .args_doc = "PID|NAME ADDRESS...\nFILE ADDRESS...",
    .doc = "Show what addresses in a process that runs on hakmem are: a block, live or free, its "
           "size, the blocks beside it, and who allocated it if it is a sample; a stack, code or "
           "data of a file, or nothing. FILE is a core file. An address begins with 0x.",
};

static void print(const struct arguments *arguments, const struct where_reader *reader,
                  struct symbols *symbols, const struct where *all) {
  bool is_json = arguments->is_json;
  struct json json = {.out = stdout};
  if (is_json) json_open_group(&json, NULL, '[');
  for (unsigned i = 0; i < arguments->count; i++) {
    if (is_json) where_json(&all[i], reader, symbols, &json);
    else where_text(&all[i], reader, symbols, stdout);
  }
  if (is_json) json_close_group(&json, ']');
  if (is_json) fputc('\n', stdout);
}

bool where_open(struct where_reader *reader, const struct remote *remote) {
  *reader = (struct where_reader){.remote = remote,
                                  .heaps = calloc(1, sizeof *reader->heaps),
                                  .profile = calloc(1, sizeof *reader->profile),
                                  .unit_bytes = UINT64_C(1) << remote->layout.map.unit_shift,
                                  .slice_bytes = UINT64_C(1) << remote->layout.map.slice_shift,
                                  .page = (size_t)sysconf(_SC_PAGESIZE)};
  if (reader->heaps == NULL || reader->profile == NULL) return false;
  reader->heaps->late_ms = now_ms() + SNAPSHOT_LATE_MS;
  bool ok = snapshot_heaps(reader->heaps, remote);
  if (ok) snapshot_threads(reader->heaps, remote);
  if (profile_look(reader->profile, remote) == NULL) return ok;
  free(reader->profile);
  reader->profile = NULL;
  return ok;
}

void where_close(struct where_reader *reader) {
  if (reader->profile != NULL) profile_free(reader->profile);
  if (reader->heaps != NULL) snapshot_free(reader->heaps);
  free(reader->profile);
  free(reader->heaps);
}

static int look(const struct arguments *arguments, const struct remote *remote) {
  struct where_reader reader;
  struct where *all = calloc(arguments->count, sizeof *all);
  if (remote->shared) {
    free(all);
    return remote_refuse(remote);
  }
  bool ok = where_open(&reader, remote) && all != NULL;
  for (unsigned i = 0; i < arguments->count && ok; i++)
    ok = where_find(&all[i], &reader, arguments->addresses[i]);
  int code = ok ? remote_report(remote, remote_look(remote)) : 1;
  if (!ok) complain("out of memory");
  if (code == 0) {
    struct symbols *symbols = symbols_open(remote_target(remote));
    print(arguments, &reader, symbols, all);
    symbols_close(symbols);
  }
  where_close(&reader);
  free(all);
  return code;
}

int command_where(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0) return EXIT_USAGE;
  if (!take_text_or_json(arguments.format, &arguments.is_json)) return EXIT_USAGE;
  if (arguments.count == 0) {
    complain("name an address, as 0x7f0012345678");
    return EXIT_USAGE;
  }
  struct words words = {&arguments.word, arguments.word != NULL};
  struct remote *remote = calloc(1, sizeof *remote);
  int code = 1;
  if (remote == NULL) complain("out of memory");
  else if ((code = remote_open_chosen(remote, &arguments.core, &words)) == 0)
    code = look(&arguments, remote);
  remote_close(remote);
  free(remote);
  return code;
}
