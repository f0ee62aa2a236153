/* cfi.h - call frame information: what the compiler says of how to get from a function's frame to its caller's.
 *
 * DWARF 5, section 6.4, in the form of .eh_frame (Linux Standard Base, 10.6). Everything read is
 * bounded by the segment that the table lies in (segment.h); what is not understood is an end of the walk, nothing worse.
 */
#ifndef HAK_CFI_H
#define HAK_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/registers.h"
#include "stack/tables.h"

#if STACK_HAS_TABLES

enum rule_kind {
  RULE_SAME,
  RULE_UNDEFINED,
  RULE_AT,        /* saved at CFA + offset */
  RULE_VALUE,     /* is CFA + offset */
  RULE_AT_EXPR,   /* saved where the expression says */
  RULE_VALUE_EXPR /* is what the expression says */
};

/* Small: threads may have little stack left. */
struct rule {
  int32_t offset; /* of an expression: from the object's start */
  uint16_t expression_bytes;
  uint8_t kind;
};

/* How a frame's caller is found from a place in its code. */
struct frame_rules {
  struct rule cfa; /* RULE_VALUE: register + offset; RULE_VALUE_EXPR */
  uint8_t cfa_register;
  bool is_signal; /* its caller was interrupted: the address is not behind a call */
  struct rule registers[REGISTERS];
};

/* A mapped object with its table, as the loader knows it. */
struct cfi_object {
  uintptr_t start, end;   /* what may be read of it */
  const uint8_t *table;   /* .eh_frame_hdr */
  struct tables *touched; /* where pages that are read are noted; NULL: nowhere */
};

/** The rules at an address of code; false: there are none. */
bool cfi_find(const struct cfi_object *object, uintptr_t code, struct frame_rules *rules);

#endif
#endif
