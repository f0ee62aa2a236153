/* input.c - see input.h. */
#include "input.h"

#include "model.h"

#include <stdint.h>
#include <string.h>

static uint8_t take(struct input *input) {
  if (input->left == 0) return 0;
  input->left--;
  return *input->bytes++;
}

struct header input_header(struct input *input) {
  static const enum plan_kind plans[8] = {PLAN_NONE, PLAN_NONE, PLAN_NONE,  PLAN_NONE,
                                          PLAN_NTH,  PLAN_FROM, PLAN_OFTEN, PLAN_RARELY};
  struct header header;
  header.options = take(input);
  uint8_t bits = take(input);
  header.threads = 1 + (bits & 3) % THREADS;
  header.at_once = (bits & 4) != 0;
  header.fill_usable = (bits & 8) != 0;
  header.plan = plans[bits >> 4 & 7];
  header.number = take(input);
  return header;
}

static size_t near(size_t middle, uint8_t byte) {
  return middle +
         (size_t)(ptrdiff_t)(int8_t)byte; /* wraps below 0: an impossible size is one as well */
}

/* None between 64 MiB and what no process can have: whether those are to be had is the machine's business. */
static size_t impossible(unsigned which, uint8_t byte) {
  switch (which & 7) {
  case 0:
    return SIZE_MAX - byte;
  case 1:
    return near(PTRDIFF_MAX, byte & 0x7f);
  case 2:
    return PTRDIFF_MAX - (size_t)byte;
  case 3:
    return near((size_t)1 << 48, byte);
  case 4:
    return ((size_t)1 << 62) + byte;
  case 5:
    return (size_t)byte << 18; /* to 64 MiB: possible */
  default:
    return (size_t)byte << 14; /* to 4 MiB */
  }
}

static size_t read_size(struct input *input) {
  uint8_t first = take(input), second = take(input);
  unsigned low = first & 31;
  size_t number = (size_t)low << 8 | second;
  switch (first >> 5) {
  case 0:
    return second;
  case 1:
    return number; /* to 8 KiB, */
  case 2:
    return number * 8; /* 64 KiB, */
  case 3:
    return number * 128; /* 1 MiB */
  case 4:
    return number % 2048 * 1024 + low;
  case 5:
    return near((size_t)1 << low % 23, (second & 128) != 0 && low < 8 ? 0 : second);
  case 6:
    return low == 0 ? second : near((size_t)low * 4096, second);
  default:
    return impossible(low, second);
  }
}

static size_t read_alignment(struct input *input) {
  uint8_t byte = take(input);
  if (byte < 176) return (size_t)1 << byte % 22; /* to 2 MiB */
  if (byte < 208) return (size_t)1 << byte % 31; /* to 1 GiB, the largest */
  if (byte < 224) return (size_t)1 << (32 + byte % 32);
  return byte < 240 ? (size_t)byte - 224 : (size_t)byte * 3; /* mostly no powers of two */
}

/* Half of the values stand for 16 slots, so that a block is resized and freed more often than left alone. */
static unsigned read_slot(struct input *input) {
  unsigned byte = take(input);
  return (byte < 128 ? byte % 16 : byte) * (SLOTS / 256);
}

const char *input_action_name(enum action_kind kind) {
  static const char *const names[ACTION_KINDS] = {
#define ACTION_TEXT(name, needs) #name,
      ACTIONS(ACTION_TEXT)
#undef ACTION_TEXT
  };
  return names[kind];
}

bool input_action(struct input *input, const struct header *header, struct action *action) {
  static const char *const needs[ACTION_KINDS] = {
#define ACTION_NEEDS(name, needs) needs,
      ACTIONS(ACTION_NEEDS)
#undef ACTION_NEEDS
  };
  if (input->left == 0) return false;
  uint8_t what = take(input);
  memset(action, 0, sizeof *action);
  /* 32 values for 31 kinds: what is left over is what programs do most. */
  unsigned kind = what & 31;
  action->kind = kind < ACTION_KINDS ? (enum action_kind)kind
                 : kind % 2          ? ACTION_MALLOC
                                     : ACTION_FREE;
  action->thread = (what >> 5 & 3) % header->threads;
  action->family = what >> 7;
  for (const char *need = needs[action->kind]; *need != 0; need++) {
    if (*need == 's') action->slot = read_slot(input);
    else if (*need == 'z') action->size = read_size(input);
    else if (*need == 'n') action->number = take(input);
    else action->alignment = read_alignment(input);
  }
  return true;
}
