/* env_command.c - see env_command.h. The options are those of GNU coreutils; busybox knows a part of them. */
#include "env_command.h"

#include <stddef.h>
#include <string.h>

enum { MOST_WORDS = 128 };

struct reader {
  char **next;
  char *split[MOST_WORDS]; /* the words of -S, and what follows it */
  bool was_split;
  bool is_lost; /* something that only env understands */
  struct env_command command;
};

/* The argument of an option: what stands behind its letter, else the next word. */
static char *argument(struct reader *reader, char *rest) {
  if (*rest != 0) return rest;
  if (*reader->next == NULL) reader->is_lost = true;
  return *reader->next != NULL ? *reader->next++ : rest;
}

/* -S: its words take the place of the option. */
static void split(struct reader *reader, char *text) {
  if (reader->was_split || strpbrk(text, "'\"\\$#") != NULL) {
    reader->is_lost = true;
    return;
  }
  reader->was_split = true;
  size_t count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(text, " \t\r\n\f\v", &rest); word != NULL && count < MOST_WORDS - 1;
       word = strtok_r(NULL, " \t\r\n\f\v", &rest))
    reader->split[count++] = word;
  while (*reader->next != NULL && count < MOST_WORDS - 1) reader->split[count++] = *reader->next++;
  reader->split[count] = NULL;
  reader->next = reader->split;
}

static void read_unset(struct reader *reader, const char *name) {
  if (strcmp(name, "LD_PRELOAD") == 0) reader->command.drops_preload = true;
  if (strcmp(name, "PATH") == 0) reader->command.looks_elsewhere = true;
}

/* A word of letters: "-iu", "NAME". */
static void read_letters(struct reader *reader, char *letters) {
  for (char *letter = letters; *letter != 0 && !reader->is_lost; letter++) {
    if (*letter == 'i') {
      reader->command.drops_preload = true;
    } else if (*letter == 'u') {
      read_unset(reader, argument(reader, letter + 1));
      return;
    } else if (*letter == 'C') {
      argument(reader, letter + 1);
      reader->command.looks_elsewhere = true;
      return;
    } else if (*letter == 'S') {
      split(reader, argument(reader, letter + 1));
      return;
    } else if (*letter != 'v' && *letter != '0') {
      reader->is_lost = true;
    }
  }
}

/* What follows "NAME=" in "--NAME=value", or is the next word of "--NAME"; NULL when it is another. */
static char *long_option(struct reader *reader, char *word, const char *name) {
  size_t length = strlen(name);
  if (strncmp(word, name, length) != 0 || (word[length] != 0 && word[length] != '=')) return NULL;
  if (word[length] == '=') return word + length + 1;
  return argument(reader, word + length);
}

static void read_long(struct reader *reader, char *word) {
  char *value;
  if (strcmp(word, "--ignore-environment") == 0) {
    reader->command.drops_preload = true;
  } else if ((value = long_option(reader, word, "--unset")) != NULL) {
    read_unset(reader, value);
  } else if (long_option(reader, word, "--chdir") != NULL) {
    reader->command.looks_elsewhere = true;
  } else if ((value = long_option(reader, word, "--split-string")) != NULL) {
    split(reader, value);
  } else if (strstr(word, "-signal") == NULL && strcmp(word, "--debug") != 0) {
    reader->is_lost = true; /* --help, --null, and what is to come */
  }
}

struct env_command env_command_read(char **words) {
  static struct reader reader;
  memset(&reader, 0, sizeof reader);
  reader.next = words;
  bool options = true;
  while (*reader.next != NULL && !reader.is_lost) {
    char *word = *reader.next++;
    if (options && strcmp(word, "--") == 0) {
      options = false;
    } else if (options && strcmp(word, "-") == 0) {
      reader.command.drops_preload = true;
    } else if (options && strncmp(word, "--", 2) == 0) {
      read_long(&reader, word);
    } else if (options && word[0] == '-') {
      read_letters(&reader, word + 1);
    } else if (strchr(word, '=') != NULL) {
      options = false;
      if (strncmp(word, "LD_PRELOAD=", strlen("LD_PRELOAD=")) == 0)
        reader.command.drops_preload = true;
      if (strncmp(word, "PATH=", strlen("PATH=")) == 0) reader.command.looks_elsewhere = true;
    } else {
      reader.command.program = word;
      reader.command.arguments = reader.next;
      break;
    }
  }
  if (reader.is_lost) reader.command.program = NULL;
  return reader.command;
}
