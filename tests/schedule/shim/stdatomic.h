/* stdatomic.h - comes before the compiler's: types are its own, operations are points of the explorer (schedule.h). */
#ifndef SCHEDULE_STDATOMIC_H
#define SCHEDULE_STDATOMIC_H

#include_next <stdatomic.h>

#include "../site.h"

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_and_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_xor_explicit
#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_thread_fence

/* Each place in the source is a variable: where it is, and whether a mutant has broken it. */
#define SCHEDULE_AT(what)                                                                          \
  static struct schedule_site schedule_site = {                                                    \
      .file = __FILE__, .function = __func__, .line = __LINE__, .object = what}

#define SCHEDULE_BITS(value)                                                                       \
  __extension__({                                                                                  \
    uint64_t schedule_bits = 0;                                                                    \
    __builtin_memcpy(&schedule_bits, &(value), sizeof(value));                                     \
    schedule_bits;                                                                                 \
  })

#define atomic_load_explicit(from, order)                                                          \
  __extension__({                                                                                  \
    SCHEDULE_AT(#from);                                                                            \
    __auto_type schedule_object = (from);                                                          \
    __typeof__((void)0, *schedule_object) schedule_result;                                         \
    uint64_t schedule_was =                                                                        \
        schedule_load((uintptr_t)schedule_object, sizeof schedule_result, order, &schedule_site);  \
    __builtin_memcpy(&schedule_result, &schedule_was, sizeof schedule_result);                     \
    schedule_result;                                                                               \
  })

#define atomic_store_explicit(to, value, order)                                                    \
  __extension__({                                                                                  \
    SCHEDULE_AT(#to);                                                                              \
    __auto_type schedule_object = (to);                                                            \
    __typeof__((void)0, *schedule_object) schedule_new = (value);                                  \
    schedule_store((uintptr_t)schedule_object, sizeof schedule_new, SCHEDULE_BITS(schedule_new),   \
                   order, &schedule_site);                                                         \
  })

#define SCHEDULE_CHANGE(object, value, order, how)                                                 \
  __extension__({                                                                                  \
    SCHEDULE_AT(#object);                                                                          \
    __auto_type schedule_object = (object);                                                        \
    __typeof__((void)0, *schedule_object) schedule_new =                                           \
        (__typeof__((void)0, *schedule_object))(value);                                            \
    uint64_t schedule_was =                                                                        \
        schedule_change((uintptr_t)schedule_object, sizeof schedule_new,                           \
                        SCHEDULE_BITS(schedule_new), how, order, &schedule_site);                  \
    __builtin_memcpy(&schedule_new, &schedule_was, sizeof schedule_new);                           \
    schedule_new;                                                                                  \
  })

#define atomic_exchange_explicit(to, value, order)                                                 \
  SCHEDULE_CHANGE(to, value, order, SCHEDULE_EXCHANGE)
#define atomic_fetch_add_explicit(to, value, order) SCHEDULE_CHANGE(to, value, order, SCHEDULE_ADD)
#define atomic_fetch_sub_explicit(to, value, order) SCHEDULE_CHANGE(to, value, order, SCHEDULE_SUB)
#define atomic_fetch_and_explicit(to, value, order) SCHEDULE_CHANGE(to, value, order, SCHEDULE_AND)
#define atomic_fetch_or_explicit(to, value, order) SCHEDULE_CHANGE(to, value, order, SCHEDULE_OR)
#define atomic_fetch_xor_explicit(to, value, order) SCHEDULE_CHANGE(to, value, order, SCHEDULE_XOR)

#define SCHEDULE_SWAP(to, was, value, success, failure, weak)                                      \
  __extension__({                                                                                  \
    SCHEDULE_AT(#to);                                                                              \
    __auto_type schedule_object = (to);                                                            \
    __auto_type schedule_was = (was);                                                              \
    __typeof__((void)0, *schedule_object) schedule_new = (value);                                  \
    uint64_t schedule_expected = SCHEDULE_BITS(*schedule_was);                                     \
    _Bool schedule_done =                                                                          \
        schedule_swap((uintptr_t)schedule_object, sizeof schedule_new, &schedule_expected,         \
                      SCHEDULE_BITS(schedule_new), success, failure, weak, &schedule_site);        \
    if (!schedule_done) __builtin_memcpy(schedule_was, &schedule_expected, sizeof schedule_new);   \
    schedule_done;                                                                                 \
  })

#define atomic_compare_exchange_strong_explicit(to, was, value, success, failure)                  \
  SCHEDULE_SWAP(to, was, value, success, failure, 0)
#define atomic_compare_exchange_weak_explicit(to, was, value, success, failure)                    \
  SCHEDULE_SWAP(to, was, value, success, failure, 1)

#define atomic_load(from) atomic_load_explicit(from, memory_order_seq_cst)
#define atomic_store(to, value) atomic_store_explicit(to, value, memory_order_seq_cst)
#define atomic_exchange(to, value) atomic_exchange_explicit(to, value, memory_order_seq_cst)
#define atomic_fetch_add(to, value) atomic_fetch_add_explicit(to, value, memory_order_seq_cst)
#define atomic_fetch_sub(to, value) atomic_fetch_sub_explicit(to, value, memory_order_seq_cst)
#define atomic_compare_exchange_strong(to, was, value)                                             \
  SCHEDULE_SWAP(to, was, value, memory_order_seq_cst, memory_order_seq_cst, 0)
#define atomic_compare_exchange_weak(to, was, value)                                               \
  SCHEDULE_SWAP(to, was, value, memory_order_seq_cst, memory_order_seq_cst, 1)

#define atomic_thread_fence(order)                                                                 \
  __extension__({                                                                                  \
    SCHEDULE_AT("");                                                                               \
    schedule_fence(order, &schedule_site);                                                         \
  })

#endif
