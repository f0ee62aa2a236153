/* futex.h - comes before src/os/futex.h: sleeping and waking are points of the explorer (schedule.h). */
#ifndef HAK_OS_FUTEX_H
#define HAK_OS_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum futex_end { FUTEX_WOKEN, FUTEX_TIME_OVER, FUTEX_NO_SLEEP };

#define futex_wait(word, value, time)                                                              \
  __extension__({                                                                                  \
    SCHEDULE_AT(#word);                                                                            \
    (enum futex_end) schedule_sleep((uintptr_t)(word), value, (time) != NULL, &schedule_site);     \
  })

#define futex_wake(word, most)                                                                     \
  __extension__({                                                                                  \
    SCHEDULE_AT(#word);                                                                            \
    schedule_wake((uintptr_t)(word), most, &schedule_site);                                        \
  })

#endif
