/* search_print.c - a trial as C, for a test or a report. */
#include "search.h"

#include <inttypes.h>
#include <stdio.h>

static void print_value(const struct step *step, const char *at) {
  static const char *const words[] = {"(uintptr_t)in_data", "(uintptr_t)on_stack",
                                      "(uintptr_t)mapping"};
  if (step->value <= VALUE_MAPPING) printf("%s = %s;", at, words[step->value]);
  else if (step->value == VALUE_BLOCK) printf("%s = (uintptr_t)p[%u];", at, step->other);
  else if (step->value == VALUE_ZERO) printf("%s = 0;", at);
  else if (step->value == VALUE_ONES) printf("%s = UINT64_MAX;", at);
  else if (step->value == VALUE_SIZE) printf("%s = size_like;", at);
  else printf("%s ^= UINT64_C(1) << %u;", at, step->other % 64);
}

static void print_misuse(enum primitive primitive, const struct step *step) {
  unsigned slot = step->slot, words = 1 + step->offset / 16;
  char at[96];
  switch (primitive) {
  case PRIMITIVE_DOUBLE_FREE:
  case PRIMITIVE_STALE_FREE:
    printf("free(p[%u]);", slot);
    break;
  case PRIMITIVE_INTERIOR_FREE:
    printf("free((char *)p[%u] + %u);", slot, step->offset);
    break;
  case PRIMITIVE_OVERFLOW:
    printf("for (int i = 0; i < %u; i++) ", words);
    snprintf(at, sizeof at, "((uint64_t *)((char *)p[%u] + malloc_usable_size(p[%u])))[i]", slot,
             slot);
    print_value(step, at);
    break;
  case PRIMITIVE_UNDERFLOW:
    printf("for (int i = 0; i < %u; i++) ", words);
    snprintf(at, sizeof at, "((uint64_t *)p[%u])[-1 - i]", slot);
    print_value(step, at);
    break;
  case PRIMITIVE_WRITE_AFTER_FREE:
    snprintf(at, sizeof at, "*(uint64_t *)((char *)p[%u] + %u)", slot, step->offset);
    print_value(step, at);
    break;
  case PRIMITIVE_BYTE_AFTER_FREE:
    printf("((char *)p[%u])[%u] ^= %u;", slot, step->offset, 1u << step->other % 8);
    break;
  default:
    printf("((char *)p[%u])[malloc_usable_size(p[%u])] = 0;", slot, slot);
  }
  printf(" /* the misuse, where there is a place for it */\n");
}

void trial_print(const struct trial *trial) {
  for (unsigned i = 0; i < trial->count; i++) {
    const struct step *step = &trial->steps[i];
    printf("    ");
    if (step->kind == STEP_MALLOC) printf("p[%u] = malloc(%zu);\n", step->slot, step->size);
    else if (step->kind == STEP_FREE) printf("free(p[%u]);\n", step->slot);
    else if (step->kind == STEP_REALLOC)
      printf("p[%u] = realloc(p[%u], %zu);\n", step->slot, step->slot, step->size);
    else print_misuse(trial->primitive, step);
  }
}
