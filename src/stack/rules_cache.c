/* rules_cache.c - see rules_cache.h. */
#include "stack/rules_cache.h"

#if STACK_HAS_TABLES

_Alignas(4096) struct rules_entry rules_entries[1 << RULES_SETS_BITS][RULES_WAYS];

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

static void copy(struct rules_entry *to, struct rules_entry *from) {
  atomic_store_explicit(&to->rules, atomic_load_explicit(&from->rules, memory_order_relaxed),
                        memory_order_relaxed);
  atomic_store_explicit(&to->key, atomic_load_explicit(&from->key, memory_order_relaxed),
                        memory_order_relaxed);
}

/* What came last goes first in its set, and the oldest out. */
void rules_cache(uintptr_t code, const struct frame_rules *rules) {
  uint64_t word;
  if (!pack(rules, &word)) return;
  struct rules_entry *set = rules_set_of(code);
  for (unsigned way = RULES_WAYS - 1; way > 0; way--) copy(&set[way], &set[way - 1]);
  atomic_store_explicit(&set[0].rules, word, memory_order_relaxed);
  atomic_store_explicit(&set[0].key, rules_key(code, word), memory_order_relaxed);
}

void rules_touch(void) {
  for (unsigned set = 0; set < 1U << RULES_SETS_BITS; set += 4096 / sizeof rules_entries[0])
    atomic_store_explicit(&rules_entries[set][0].rules, 0, memory_order_relaxed);
}

#endif

typedef int rules_cache_translation_unit_is_not_empty;
