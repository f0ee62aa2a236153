/* rules_cache.c - see rules_cache.h. */
#include "stack/rules_cache.h"

#if STACK_HAS_TABLES

_Alignas(4096) struct rules_entry rules_entries[1 << RULES_ENTRIES_BITS];

/* The return address, of which a word says nothing. */
static bool back_is_usual(const struct rule *back) {
#if defined(__x86_64__)
  return back->kind == RULE_AT && back->offset == -RULES_UNIT;
#else
  return back->kind == RULE_SAME;
#endif
}

/* `n` of a saved register. */
static bool pack_saved(const struct rule *rule, uint64_t *n) {
  int32_t below = -rule->offset;
  *n = 0;
  if (rule->kind == RULE_SAME) return true;
  if (rule->kind != RULE_AT || below <= 0 || below % RULES_UNIT != 0) return false;
  *n = (uint64_t)(below / RULES_UNIT);
  return *n < UINT64_C(1) << RULES_SAVED_BITS;
}

static bool pack(const struct frame_rules *rules, uint64_t *word) {
  uint64_t packed = 0, n;
  if (rules->registers[CPU_RETURN].kind == RULE_UNDEFINED) {
    *word = RULES_THERE | RULES_END;
    return true;
  }
  int32_t offset = rules->cfa.offset;
  if (rules->is_signal || rules->cfa.kind != RULE_VALUE || offset < 0 || offset % RULES_UNIT != 0 ||
      offset / RULES_UNIT >= 1 << RULES_OFFSET_BITS || rules->registers[CPU_SP].kind != RULE_SAME ||
      !back_is_usual(&rules->registers[CPU_PC]))
    return false;
  packed = (uint64_t)(offset / RULES_UNIT) << RULES_REGISTER_BITS | rules->cfa_register;
  for (int i = CPU_SAVED; i-- > 0;) {
    if (!pack_saved(&rules->registers[i], &n)) return false;
    packed = packed << RULES_SAVED_BITS | n;
  }
  *word = packed | RULES_THERE;
  return true;
}

void rules_cache(uintptr_t code, const struct frame_rules *rules) {
  uint64_t word;
  if (!pack(rules, &word)) return;
  struct rules_entry *entry = rules_entry_of(code);
  atomic_store_explicit(&entry->rules, word, memory_order_relaxed);
  atomic_store_explicit(&entry->key, rules_key(code, word), memory_order_relaxed);
}

void rules_touch(void) {
  for (unsigned e = 0; e < 1U << RULES_ENTRIES_BITS; e += 4096 / sizeof(struct rules_entry))
    atomic_store_explicit(&rules_entries[e].rules, 0, memory_order_relaxed);
}

#endif

typedef int rules_cache_translation_unit_is_not_empty;
