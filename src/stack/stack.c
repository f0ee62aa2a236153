/* stack.c - see stack.h. */
#define _GNU_SOURCE /* dl_find_object */
#include "stack/stack.h"

#include <stdatomic.h>
#include <stddef.h>

#include "os/os.h"
#include "stack/cfi.h"
#include "stack/epilogue.h"
#include "stack/expression.h"
#include "stack/object.h"
#include "stack/reach.h"
#include "stack/rules_cache.h"
#include "stack/segment.h"
#include "stack/tables.h"

#if STACK_HAS_TABLES

/* --- one frame ---------------------------------------------------------------------------------------------- */

struct walk {
  uintptr_t registers[REGISTERS];
  struct reach reach;
  bool after_call;        /* the place in the code is behind a call, whose own rules count */
  struct tables *touched; /* NULL: what it touches stays in memory */
};

#if defined(__powerpc64__)

/* Where no table says anything: frames lead to their callers' all the same. */
static bool step_by_frame_pointer(struct walk *walk) {
  enum { RETURN = 16 };
  uintptr_t frame = walk->registers[CPU_SP], caller_frame, code;
  if (!reach_word(&walk->reach, frame, &caller_frame) || caller_frame <= frame ||
      caller_frame % sizeof(void *) != 0 || !reach_word(&walk->reach, caller_frame + RETURN, &code))
    return false;
  walk->registers[CPU_SP] = caller_frame;
  walk->registers[CPU_PC] = walk->registers[CPU_LR] = code;
  walk->after_call = true;
  return true;
}

#else

/* Where no table says anything, of a compiler at run time for example: the frame pointer, if it is one. */
static bool step_by_frame_pointer(struct walk *walk) {
  uintptr_t frame = walk->registers[CPU_FRAME], caller_frame, code;
  if (frame < walk->registers[CPU_SP] || frame % sizeof(void *) != 0) return false;
  if (!reach_word(&walk->reach, frame + (uintptr_t)FRAME_CALLER, &caller_frame) ||
      !reach_word(&walk->reach, frame + (uintptr_t)FRAME_RETURN, &code) || caller_frame <= frame)
    return false;
  walk->registers[CPU_FRAME] = caller_frame;
  walk->registers[CPU_SP] = frame + FRAME_END;
  walk->registers[CPU_PC] = code_address(code);
  walk->after_call = true;
  return true;
}

#endif

/* Not where objects cannot be found: musl has threads with 2 KiB of stack, too little for this. */
#if defined(DLFO_STRUCT_HAS_EH_DBASE)

/* Of a program with holes between its segments the loader tells each segment alone: the one that the table lies in counts. */
static bool find_object(uintptr_t code, struct tables *touched, struct cfi_object *object) {
  struct dl_find_object of_code, of_table;
  if (!object_of(code, &of_code) || of_code.dlfo_eh_frame == NULL) return false;
  if (!object_of((uintptr_t)of_code.dlfo_eh_frame, &of_table)) return false;
  if (of_table.dlfo_link_map != of_code.dlfo_link_map) return false;
  *object = (struct cfi_object){(uintptr_t)of_table.dlfo_map_start,
                                (uintptr_t)of_table.dlfo_map_end, of_code.dlfo_eh_frame, NULL};
  if (of_table.dlfo_map_start != of_code.dlfo_map_start) return true;
  object->touched = touched;
  return segment_of_table(object);
}

static bool by_rule(struct walk *walk, const struct cfi_object *object, const struct rule *rule,
                    uintptr_t cfa, uintptr_t *value) {
  uintptr_t address = cfa + (uintptr_t)(intptr_t)rule->offset;
  switch ((enum rule_kind)rule->kind) {
  case RULE_AT:
    return reach_word(&walk->reach, address, value);
  case RULE_VALUE:
    *value = address;
    return true;
  case RULE_AT_EXPR:
    return expression_value(object, rule, walk->registers, &walk->reach, cfa, &address) &&
           reach_word(&walk->reach, address, value);
  case RULE_VALUE_EXPR:
    return expression_value(object, rule, walk->registers, &walk->reach, cfa, value);
  case RULE_UNDEFINED:
    *value = 0;
    return true;
  case RULE_SAME:
    return true;
  }
  return false;
}

/* The stack pointer only goes up, or the walk would not end. */
static bool goes_up(const struct walk *walk, uintptr_t stack) {
  uintptr_t now = walk->registers[CPU_SP];
  return stack > now || (stack == now && !walk->after_call);
}

/* A signal handler's caller may be on another stack. */
static void follow_to_other_stack(struct walk *walk, uintptr_t stack) {
  if (stack >= walk->reach.low && stack < walk->reach.high) return;
  unsigned asked = walk->reach.asked;
  walk->reach = os_is_readable((const void *)stack) ? reach_of(stack)
                                                    : (struct reach){.low = stack, .high = stack};
  walk->reach.asked = asked + 1;
}

static bool step_by_rules(struct walk *walk, const struct cfi_object *object,
                          const struct frame_rules *rules) {
  uintptr_t next[REGISTERS], cfa = walk->registers[rules->cfa_register];
  const struct rule *back = &rules->registers[CPU_RETURN];
  if (rules->cfa.kind == RULE_VALUE) cfa += (uintptr_t)(intptr_t)rules->cfa.offset;
  else if (!by_rule(walk, object, &rules->cfa, 0, &cfa)) return false;
  if (back->kind == RULE_UNDEFINED) return false; /* the first function of its thread */
  for (int i = 0; i < REGISTERS; i++) {
    next[i] = walk->registers[i];
    if (!by_rule(walk, object, &rules->registers[i], cfa, &next[i])) return false;
  }
  if (rules->registers[CPU_SP].kind == RULE_SAME) next[CPU_SP] = cfa;
#if !defined(__x86_64__)
  /* The link register may hold it still, in a function that calls nobody. */
  if (!rules->is_signal) next[CPU_PC] = next[CPU_LR];
#endif
  next[CPU_PC] = code_address(next[CPU_PC]);
  if (rules->is_signal) follow_to_other_stack(walk, next[CPU_SP]);
  else if (!goes_up(walk, next[CPU_SP])) return false;
  for (int i = 0; i < REGISTERS; i++) walk->registers[i] = next[i];
  walk->after_call = !rules->is_signal;
  return true;
}

/* Code that was made at run time may be replaced, so that its rules are not cached. */
static bool step_without_table(struct walk *walk) {
#if defined(__x86_64__)
  struct frame_rules rules;
  if (walk->after_call && epilogue_find(walk->registers[CPU_PC], &rules))
    return step_by_rules(walk, NULL, &rules);
#endif
  return step_by_frame_pointer(walk);
}

/* The same as step_by_rules, of the rules in a word. */
static bool step_by_word(struct walk *walk, uint64_t word) {
  uintptr_t cfa = walk->registers[rules_cfa_register(word)] + rules_cfa_offset(word), n;
  if ((word & RULES_END) != 0 || !goes_up(walk, cfa)) return false;
  for (int i = 0; i < CPU_SAVED; i++)
    if ((n = rules_saved(word, i)) != 0 && !reach_word(&walk->reach, cfa - n, &walk->registers[i]))
      return false;
#if defined(__x86_64__)
  if (!reach_word(&walk->reach, cfa - RULES_UNIT, &walk->registers[CPU_PC])) return false;
#else
  walk->registers[CPU_PC] = code_address(walk->registers[CPU_RETURN]);
#endif
  walk->registers[CPU_SP] = cfa;
  walk->after_call = true;
  return true;
}

static HAK_NOINLINE bool step_anew(struct walk *walk, uintptr_t code) {
  struct cfi_object object;
  struct frame_rules rules;
  if (!find_object(code, walk->touched, &object) || !cfi_find(&object, code, &rules))
    return step_without_table(walk);
  rules_cache(code, &rules);
  return step_by_rules(walk, &object, &rules);
}

HAK_INLINE bool step(struct walk *walk) {
  uintptr_t code = walk->registers[CPU_PC] - walk->after_call;
  uint64_t word = rules_cached(code);
  return HAK_LIKELY(word != 0) ? step_by_word(walk, word) : step_anew(walk, code);
}

#else

HAK_INLINE bool step(struct walk *walk) { return step_by_frame_pointer(walk); }

#endif

/* --- the whole stack ----------------------------------------------------------------------------------------- */

/* The library's own code: all of its object; in a program that is linked with libhakmem.a, a section (cmake/library.cmake). */
extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));
extern const char etext[] __attribute__((weak, visibility("hidden")));
extern const char __start_hakmem_text[] __attribute__((weak, visibility("hidden")));
extern const char __stop_hakmem_text[] __attribute__((weak, visibility("hidden")));

static uintptr_t own_start(void) {
  uintptr_t section = (uintptr_t)__start_hakmem_text;
  return section != 0 ? section : (uintptr_t)__ehdr_start;
}

#define UNKNOWN UINTPTR_MAX /* not 0: so it lies in a page that the loader has written to */

/* How long it is; 1, at no code of ours, where nothing tells: other builds link the objects as they are. */
static uintptr_t own_bytes(void) {
  static _Atomic uintptr_t found = UNKNOWN; /* relaxed: whoever looks finds the same */
  uintptr_t bytes = atomic_load_explicit(&found, memory_order_relaxed);
  if (HAK_LIKELY(bytes != UNKNOWN)) return bytes;
  uintptr_t start = own_start();
  bytes = (uintptr_t)__stop_hakmem_text - start;
  if ((uintptr_t)__start_hakmem_text == 0) {
    bytes = (uintptr_t)etext - start;
    if (start == 0 || os_program_headers() - start < bytes) bytes = 1;
  }
  rules_touch();
  atomic_store_explicit(&found, bytes, memory_order_relaxed);
  return bytes;
}

HAK_NOINLINE unsigned stack_take(uintptr_t *addresses, unsigned most, bool tables_leave) {
  struct tables touched;
  struct walk walk = {.touched = tables_leave ? &touched : NULL};
  touched.count = 0;
  unsigned count = 0, own = 0;
  enum { OWN_MOST = 16 };
  uintptr_t start = own_start(), bytes = own_bytes();
  REGISTERS_TAKE(walk.registers);
  walk.reach = reach_of(walk.registers[CPU_SP]);
  while (count < most && step(&walk) && walk.registers[CPU_PC] != 0) {
    uintptr_t code = walk.registers[CPU_PC];
    if (count == 0 && own < OWN_MOST && code - start < bytes) own++;
    else addresses[count++] = code;
  }
  if (tables_leave) tables_drop(&touched);
  return count;
}

#else

unsigned stack_take(uintptr_t *addresses, unsigned most, bool tables_leave) {
  (void)tables_leave;
  (void)addresses;
  (void)most;
  return 0;
}

#endif
