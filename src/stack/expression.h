/* expression.h - the little programs of call frame information: DWARF 5, section 2.5. */
#ifndef HAK_EXPRESSION_H
#define HAK_EXPRESSION_H

#include "stack/cfi.h"
#include "stack/reach.h"

#if STACK_HAS_TABLES

/** What a rule's expression comes to, with `start` as the first value on its stack. False: it cannot be told. */
bool expression_value(const struct cfi_object *object, const struct rule *rule,
                      const uintptr_t registers[REGISTERS], struct reach *reach, uintptr_t start,
                      uintptr_t *value);

#endif
#endif
