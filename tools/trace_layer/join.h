/* join.h - how a process finds its recorder: the memory between them, and what happens at forks. */
#ifndef HAKMEM_TRACE_JOIN_H
#define HAKMEM_TRACE_JOIN_H

#include "append.h"

/* The process's region; NULL: it has none. */
extern struct trace_header *trace_header HAK_HIDDEN;
extern uint32_t trace_chunks_mapped HAK_HIDDEN;

/** Finds the recorder and waits until it has accepted this process, which it does once. False: nothing is recorded.
 * Called again in the child of a fork, if that is followed. */
bool trace_join(void) HAK_HIDDEN;

bool trace_recorder_is_there(void) HAK_HIDDEN;
void trace_wake_recorder(void) HAK_HIDDEN;

/** Sleeps until the recorder has given something, or for a while; `seen`: value of `given` before the caller looked
 * in vain. */
void trace_wait_for_recorder(uint32_t seen) HAK_HIDDEN;

/* attach.c; join.c calls them. */
void trace_stop(void) HAK_HIDDEN;
void trace_begin_child(struct trace_guard *guard) HAK_HIDDEN;

#endif
