/* option_table.c - see option_table.h. */
#include "option_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option_row option_table[] = {
#define HAK_OPTION(id, name, type, speed, balanced, lean, low, high, accepted, help)               \
  {name, OPTION_##type, {speed, balanced, lean}, low, high, accepted, help},
#include "policy/options.def"
#undef HAK_OPTION
};
const size_t option_count = sizeof option_table / sizeof option_table[0];

const char *const profile_names[PROFILE_COUNT] = {"speed", "balanced", "lean"};

/* Position of `text` among the words of "a|b|c", or -1. */
static long find_word(const char *words, const char *text) {
  size_t length = strlen(text);
  for (long index = 0;; index++) {
    size_t word = strcspn(words, "|");
    if (word == length && memcmp(words, text, length) == 0) return index;
    if (words[word] == 0) return -1;
    words += word + 1;
  }
}

void option_text(const struct option_row *option, long value, char text[OPTION_TEXT_SIZE]) {
  if (option->type == OPTION_NUMBER) {
    snprintf(text, OPTION_TEXT_SIZE, "%ld", value);
    return;
  }
  const char *word = option->accepted;
  for (; value > 0 && strchr(word, '|') != NULL; value--) word = strchr(word, '|') + 1;
  snprintf(text, OPTION_TEXT_SIZE, "%.*s", (int)strcspn(word, "|"), word);
}

bool option_accepts(const struct option_row *option, const char *text) {
  if (option->type != OPTION_NUMBER) return find_word(option->accepted, text) >= 0;
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 18 || text[digits] != 0) return false;
  long value = strtol(text, NULL, 10);
  return value >= option->low && value <= option->high;
}

const struct option_row *option_find(const char *name) {
  for (size_t i = 0; i < option_count; i++)
    if (strcmp(option_table[i].name, name) == 0) return &option_table[i];
  return NULL;
}

int profile_find(const char *name) {
  long index = find_word(option_find("HAKMEM_PROFILE")->accepted, name);
  /* After the three come other names of the first two. */
  return index < 0 ? -1 : (int)(index % PROFILE_COUNT);
}
