/* option_table.c - see option_table.h. */
#define _GNU_SOURCE
#include "option_table.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "os/variant.h"
#include "policy/option_text.h"

const struct option_row option_table[] = {
#define HAK_OPTION(id, name, type, speed, balanced, lean, low, high, accepted, help)               \
  {name, OPTION_##type, {speed, balanced, lean}, low, high, accepted, help},
#include "policy/options.def"
#undef HAK_OPTION
};
const size_t option_count = sizeof option_table / sizeof option_table[0];

const char *const profile_names[PROFILE_COUNT] = {"speed", "balanced", "lean"};

/* Position of `text` among the words of "a|b|c", in any case, or -1. */
static long find_word(const char *words, const char *text) {
  size_t length = strlen(text);
  for (long index = 0;; index++) {
    size_t word = strcspn(words, "|");
    if (word == length && strncasecmp(words, text, length) == 0) return index;
    if (words[word] == 0) return -1;
    words += word + 1;
  }
}

bool option_is_listed(const struct option_row *option) { return option->help[0] != 0; }

bool option_is_text(const struct option_row *option) { return option->type >= OPTION_PATH; }

void option_text(const struct option_row *option, long value, char text[OPTION_TEXT_SIZE]) {
  if (option_is_number(option)) {
    snprintf(text, OPTION_TEXT_SIZE, "%ld", value);
    return;
  }
  const char *word = option_is_text(option) ? "none" : option->accepted;
  for (; value > 0 && strchr(word, '|') != NULL; value--) word = strchr(word, '|') + 1;
  snprintf(text, OPTION_TEXT_SIZE, "%.*s", (int)strcspn(word, "|"), word);
}

bool option_is_number(const struct option_row *option) {
  return option->type >= OPTION_NUMBER && option->type <= OPTION_MBYTES;
}

bool size_parse(const char *text, long long *bytes) {
  static const char letters[] = "kmg";
  enum { MOST = INT32_MAX };
  char *end;
  if (*text < '0' || *text > '9') return false;
  long long number = strtoll(text, &end, 10);
  if (number > MOST) return false;
  const char *letter = *end != 0 ? strchr(letters, *end | 0x20) : NULL;
  if (*end != 0 && (letter == NULL || *letter == 0 || end[1] != 0)) return false;
  *bytes = number << (letter != NULL ? 10 * (letter - letters + 1) : 0);
  return true;
}

/* In the option's unit, as the library reads it. */
static bool parse_number(const struct option_row *option, const char *text, long *number) {
  size_t digits = strspn(text, "0123456789");
  long long bytes;
  if (!size_parse(text, &bytes)) return false;
  *number = (long)bytes;
  if (text[digits] == 0) return true;
  if (option->type == OPTION_NUMBER) return false;
  long unit = 1L << 10 * (option->type - OPTION_BYTES);
  *number = (long)bytes / unit;
  return bytes % unit == 0;
}

bool option_parse(const struct option_row *option, const char *text, long *value) {
  long number;
  if (option_is_text(option)) {
    number = 1;
  } else if (!option_is_number(option)) {
    number = find_word(option->accepted, text);
    if (number < 0 && option == option_find("HAKMEM_PROFILE"))
      number = find_word(OLD_PROFILES, text);
    if (number < 0) return false;
  } else {
    if (!parse_number(option, text, &number)) return false;
    if (number < option->low || number > option->high) return false;
  }
  *value = number;
  return true;
}

bool option_accepts(const struct option_row *option, const char *text) {
  long value;
  return option_parse(option, text, &value);
}

const struct option_row *option_find(const char *name) {
  for (size_t i = 0; i < option_count; i++)
    if (strcmp(option_table[i].name, name) == 0) return &option_table[i];
  return NULL;
}

static int least(int a, int b) { return a < b ? a : b; }

/* How many characters have to be put in, taken out, or changed to make one name of the other. */
static int distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  enum { LONGEST = 64 };
  int row[LONGEST + 1];
  if (a_length > LONGEST || b_length > LONGEST) return LONGEST;
  for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
  for (size_t i = 1; i <= a_length; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= b_length; j++) {
      int changed = diagonal + (strncasecmp(a + i - 1, b + j - 1, 1) != 0);
      diagonal = row[j];
      row[j] = least(changed, least(row[j], row[j - 1]) + 1);
    }
  }
  return row[b_length];
}

const struct option_row *option_nearest(const char *name, size_t length) {
  enum { NEAR = 3, SHORT = 4 };
  const size_t prefix = strlen("HAKMEM_");
  const struct option_row *nearest = NULL;
  int best = NEAR;
  for (size_t i = 0; i < option_count; i++) {
    if (!option_is_listed(&option_table[i])) continue;
    const char *known = option_table[i].name;
    int steps = distance(name, length, known, strlen(known));
    /* Of a short name, three changes leave nothing. */
    if (steps < best || (steps == NEAR && nearest == NULL && length > prefix + 2 * NEAR)) {
      nearest = &option_table[i];
      best = steps;
    }
  }
  /* Else one that goes on, before or after: HAKMEM_HUGEPAGE, HAKMEM_WARM_POOL. */
  for (size_t i = 0; i < option_count && nearest == NULL && length >= prefix + SHORT; i++) {
    const char *known = option_table[i].name + prefix;
    if (option_is_listed(&option_table[i]) &&
        strncasecmp(name, option_table[i].name, prefix) == 0 &&
        memmem(known, strlen(known), name + prefix, length - prefix) != NULL)
      nearest = &option_table[i];
  }
  return nearest;
}

int profile_find(const char *name) {
  long profile;
  return option_parse(option_find("HAKMEM_PROFILE"), name, &profile) ? (int)profile : -1;
}
