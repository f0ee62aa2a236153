/* expression.c - see expression.h. What compilers and libc use of it: signal frames, procedure linkage tables and
 * functions that align their stack anew. */
#include "stack/expression.h"

#if STACK_HAS_TABLES

#include <string.h>

enum { VALUES_MOST = 16 };

struct evaluation {
  const uint8_t *at, *end;
  uintptr_t values[VALUES_MOST];
  unsigned count;
  bool bad;
};

static void push(struct evaluation *e, uintptr_t value) {
  if (e->count == VALUES_MOST) e->bad = true;
  else e->values[e->count++] = value;
}

static uintptr_t pop(struct evaluation *e) {
  if (e->count > 0) return e->values[--e->count];
  e->bad = true;
  return 0;
}

static uint64_t take(struct evaluation *e, unsigned size) {
  uint64_t value = 0;
  if ((size_t)(e->end - e->at) < size) {
    e->bad = true;
    return 0;
  }
  for (unsigned i = 0; i < size; i++) value |= (uint64_t)e->at[i] << (8 * i);
  e->at += size;
  return value;
}

static int64_t take_leb(struct evaluation *e, bool is_signed) {
  uint64_t value = 0, byte;
  unsigned shift = 0;
  do {
    byte = take(e, 1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0 && !e->bad);
  if (is_signed && shift < 64 && (byte & 0x40) != 0) value |= ~UINT64_C(0) << shift;
  return (int64_t)value;
}

/* Operations on the two upper values, in which `b` was pushed last. */
static uintptr_t combine(struct evaluation *e, uint8_t code, uintptr_t a, uintptr_t b) {
  intptr_t x = (intptr_t)a, y = (intptr_t)b;
  switch (code) {
  case 0x1a:
    return a & b;
  case 0x1c:
    return a - b;
  case 0x1e:
    return a * b;
  case 0x21:
    return a | b;
  case 0x22:
    return a + b;
  case 0x24:
    return b < 64 ? a << b : 0;
  case 0x25:
    return b < 64 ? a >> b : 0;
  case 0x26:
    return (uintptr_t)(x >> (b < 63 ? b : 63));
  case 0x27:
    return a ^ b;
  case 0x29:
    return x == y;
  case 0x2a:
    return x >= y;
  case 0x2b:
    return x > y;
  case 0x2c:
    return x <= y;
  case 0x2d:
    return x < y;
  case 0x2e:
    return x != y;
  default:
    e->bad = true;
    return 0;
  }
}

static void operate(struct evaluation *e, uint8_t code, struct reach *reach) {
  uintptr_t value, other;
  switch (code) {
  case 0x06: /* deref */
    value = 0;
    if (!reach_word(reach, pop(e), &value)) e->bad = true;
    push(e, value);
    break;
  case 0x08:
    push(e, take(e, 1));
    break;
  case 0x09:
    push(e, (uintptr_t)(int64_t)(int8_t)take(e, 1));
    break;
  case 0x0a:
    push(e, take(e, 2));
    break;
  case 0x0b:
    push(e, (uintptr_t)(int64_t)(int16_t)take(e, 2));
    break;
  case 0x0c:
    push(e, take(e, 4));
    break;
  case 0x0d:
    push(e, (uintptr_t)(int64_t)(int32_t)take(e, 4));
    break;
  case 0x0e: /* 8 bytes */
  case 0x0f:
    push(e, take(e, 8));
    break;
  case 0x10:
    push(e, (uintptr_t)take_leb(e, false));
    break;
  case 0x11:
    push(e, (uintptr_t)take_leb(e, true));
    break;
  case 0x12: /* dup */
    value = pop(e);
    push(e, value);
    push(e, value);
    break;
  case 0x13:
    (void)pop(e);
    break;
  case 0x16: /* swap */
    value = pop(e);
    other = pop(e);
    push(e, value);
    push(e, other);
    break;
  case 0x1f:
    push(e, 0 - pop(e));
    break;
  case 0x20:
    push(e, ~pop(e));
    break;
  case 0x23: /* plus_uconst */
    value = pop(e);
    push(e, value + (uintptr_t)take_leb(e, false));
    break;
  case 0x96:
    break; /* nop */
  default:
    other = pop(e);
    value = pop(e);
    push(e, combine(e, code, value, other));
    break;
  }
}

bool expression_value(const struct cfi_object *object, const struct rule *rule,
                      const uintptr_t registers[REGISTERS], struct reach *reach, uintptr_t start,
                      uintptr_t *value) {
  const uint8_t *first = (const uint8_t *)(object->start + (uintptr_t)rule->offset);
  struct evaluation e = {.at = first, .end = first + rule->expression_bytes};
  push(&e, start);
  while (e.at < e.end && !e.bad) {
    uint8_t code = (uint8_t)take(&e, 1);
    if (code >= 0x30 && code <= 0x4f) {
      push(&e, code - 0x30U); /* lit0 .. lit31 */
    } else if (code >= 0x70 && code <= 0x8f) {
      int index = register_of_dwarf(code - 0x70U); /* breg0 .. breg31 */
      int64_t offset = take_leb(&e, true);
      if (index < 0) e.bad = true;
      else push(&e, registers[index] + (uintptr_t)offset);
    } else {
      operate(&e, code, reach);
    }
  }
  *value = pop(&e);
  return !e.bad;
}

#endif

typedef int expression_translation_unit_is_not_empty;
