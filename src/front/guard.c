/* guard.c - see guard.h. */
#include "front/guard.h"

#if HAK_HARDENED

#include "front/front.h"
#include "front/full.h"
#include "heap/samples.h"
#include "observe/report.h"

HAK_COLD void guard_refuse(const void *block) {
  const char *wrong = block_judge(slab_head(map_slab(block)), block);
  report_bad_pointer("free", block, wrong != NULL ? wrong : REPORT_DOUBLE_FREE);
}

bool guard_is_zero(const void *block) {
  return option_guard() != GUARD_OFF && map_has_entry(block) && map_inbox(block) != NULL &&
         link_zeroes(map_slab(block)->size_class);
}

/* Under memory pressure alone. No other order is needed: a thread that frees a block has it from who resized it. */
static atomic_bool a_size_was_kept;

void guard_kept_size(void) { atomic_store_explicit(&a_size_was_kept, true, memory_order_relaxed); }

/* A block has at most twice the bytes that were asked for, in its class: one of a larger class, or that has shrunk where it is; and realloc
 * asks for more than the program (resize.c). */
static bool fits(const struct block *block, size_t usable, size_t size, size_t alignment) {
  if (size > usable) return false;
  if (atomic_load_explicit(&a_size_was_kept, memory_order_relaxed)) return true;
  if (block->tier == BLOCK_SAMPLE && heap_samples_lost)
    return true; /* and its size with the records */
  if (block->tier <= BLOCK_SAMPLE) {
    unsigned size_class = class_for_aligned(front_grown_most(size), alignment);
    return size_class < CLASS_COUNT && usable <= 2 * (size_t)class_size(size_class);
  }
  /* Usable bytes of a Large block end with a page, or with a slice of one that is longer than a slice. */
  size_t more = block->tier == BLOCK_LARGE ? os_page_size() : UNIT_BYTES;
  return block->tier == BLOCK_GUARDED || usable / 2 <= (size > alignment ? size : alignment) + more;
}

void guard_check_alignment(const char *function, const void *pointer, size_t alignment) {
  if ((alignment & (alignment - 1)) != 0 || ((uintptr_t)pointer & (alignment - 1)) != 0)
    report_bad_pointer(function, pointer, REPORT_WRONG_ALIGNMENT);
}

void guard_check_size(const char *function, const void *pointer, size_t size, size_t alignment) {
  if (pointer == NULL) return;
  struct block block = block_find(pointer);
  if (block.wrong != NULL) return; /* free() says so */
  if (alignment == 0) alignment = 1;
  guard_check_alignment(function, pointer, alignment);
  bool right = full_is_on() ? full_size(function, &block, pointer) == size
                            : fits(&block, block_usable(&block, pointer), size, alignment);
  if (!right) report_bad_pointer(function, pointer, REPORT_WRONG_SIZE);
}

#endif

typedef int guard_translation_unit_is_not_empty;
