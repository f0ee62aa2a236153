/* requests.h - what a tool may ask of a running process: hakmem explain --trim.
 *
 * The tool writes a number, and then takes threads out of malloc's fast path once, by their count of bytes to the next sample
 * (SAMPLE_LEFT_REQUESTED). What the threads find then is numbers that differ. So nobody pays for a question that is not asked.
 */
#ifndef HAK_REQUESTS_H
#define HAK_REQUESTS_H

#include <stdatomic.h>
#include <stdint.h>

/* Written to malloc_thread.sample_left; what is below half of it was asked. A thread counts down so far by itself only with a
 * request of 2^61 bytes and more, which fails. */
#define SAMPLE_LEFT_REQUESTED (-(INT64_MAX / 2))

struct requests {
  _Atomic uint32_t caches; /* a tool's: each thread that sees a new number empties its own caches */
  _Atomic uint32_t emptied; /* threads that did so, since the start */
  _Atomic uint32_t trim;    /* a tool's: one thread gives all back that can be */
  _Atomic uint32_t begun;   /* the number for which one has begun */
  _Atomic uint32_t done;    /* and for which one has ended */
};

#endif
