/* epilogue.c - see epilogue.h. */
#include "stack/epilogue.h"

#include "os/os.h"

#if defined(__x86_64__)

/* addq $n, %rsp; ret */
enum { ADD_0 = 0x48, ADD_1 = 0x83, ADD_2 = 0xc4, RET = 0xc3, LENGTH = 5, MOST = 0x7f };

/* Sanitizers: it reads code. The stack says that the code is to be returned to, so it stays; of a word that only looks like a return
 * address the page may go in between, as little as that is likely. */
__attribute__((no_sanitize("address", "thread"))) bool epilogue_find(uintptr_t after_call,
                                                                     struct frame_rules *rules) {
  const volatile uint8_t *code = (const volatile uint8_t *)after_call;
  if (!os_is_readable((const void *)after_call) ||
      !os_is_readable((const void *)(after_call + LENGTH - 1)))
    return false;
  uint8_t bytes = code[3];
  if (code[0] != ADD_0 || code[1] != ADD_1 || code[2] != ADD_2 || code[4] != RET || bytes > MOST ||
      bytes % sizeof(void *) != 0)
    return false;
  *rules =
      (struct frame_rules){.cfa = {.kind = RULE_VALUE, .offset = bytes + (int32_t)sizeof(void *)},
                           .cfa_register = CPU_SP};
  rules->registers[CPU_PC] = (struct rule){.kind = RULE_AT, .offset = -(int32_t)sizeof(void *)};
  return true;
}

#endif

typedef int epilogue_translation_unit_is_not_empty;
