/* block.c - see block.h. */
#include "front/block.h"

#include "front/empty.h"
#include "policy/options.h"
#include "sample/guarded.h"

struct block block_find(const void *pointer) {
  return block_look_up(pointer);
}

HAK_COLD struct block block_outside(const void *pointer) {
  struct block block = {.wrong = REPORT_FOREIGN};
  if (guarded_has(pointer)) {
    block.tier = BLOCK_GUARDED;
    block.wrong = guarded_judge(pointer, &block.usable);
  } else if (empty_has(pointer)) {
    block.tier = BLOCK_EMPTY;
    block.wrong = (uintptr_t)pointer % BLOCK_ALIGNMENT != 0 ? REPORT_INTERIOR
                  : empty_lives(pointer)                    ? NULL
                                                            : REPORT_DOUBLE_FREE;
  }
  return block;
}

void block_refuse(const char *function, const void *pointer, const char *wrong) {
  bool guarded = guarded_has(pointer);
  if (guarded) guarded_explain(function, pointer, wrong);
  if (!guarded || !option_value(GUARD_RECOVER)) report_bad_pointer(function, pointer, wrong);
}

bool block_is_ours(const void *pointer) {
  struct superslab *superslab = map_superslab(pointer);
  if (superslab == NULL)
    return guarded_has(pointer) ? guarded_is_live(pointer)
                                : empty_has(pointer) && empty_lives(pointer);
  if (superslab->huge_units != 0)
    return (size_t)((const char *)pointer - superslab->base) < superslab->huge_usable;
  size_t index = unit_slice_of(pointer);
  uint8_t kind = atomic_load_explicit(&superslab->slabs[index].kind, memory_order_relaxed);
  return kind == KIND_SLAB || kind == KIND_LARGE;
}
