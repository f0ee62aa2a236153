/* records.h - the sampler's tables: live samples by address, and stacks by what they are. All under heap_samples.lock, but the
 * figures of a stack, which anybody may read. */
#ifndef HAK_RECORDS_H
#define HAK_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "observe/samples.h"
#include "os/os.h"

extern struct samples samples HAK_HIDDEN;

/* Written under the lock; relaxed, for whoever reads beside it takes each word as it is. */
#define LOAD(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)

/** A record for a block that has none; false: no memory. */
bool record_add(uint64_t address, const struct sample_record *as);
/** The record of a block, NULL without one. */
struct sample_record *record_find(uint64_t address);
/** Writes size, weight and exposure of `as` into it. */
void record_resize(struct sample_record *record, const struct sample_record *as);
/** Takes the record of a block out, and copies it; false: there is none. */
bool record_remove(uint64_t address, struct sample_record *copy);

/** Where the stack lies, which is entered if it is new; 0: there is no place. */
uint32_t stack_enter(const uintptr_t *addresses, unsigned depth);
/** The stack there; not for 0. */
struct sample_stack *stack_at(uint32_t place);

#endif
