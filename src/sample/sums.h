/* sums.h - what the samples stand for, by stack: all that was allocated and freed there, and what lived there at the peak.
 *
 * The peak is the moment at which the samples stood for most live bytes. Nobody copies what lives then: that would be all stacks at
 * each step of a program that grows. Peaks have numbers instead. A stack that changes for the first time after a peak saves what it
 * had, with the peak's number; a stack without that number has still what it had at the peak. So a peak costs a sample a
 * few stores, no sample is kept for it after its free, and it is exact, as far as samples are.
 *
 * All under heap_samples.lock.
 */
#ifndef HAK_SUMS_H
#define HAK_SUMS_H

#include "observe/samples.h"

/** A sample was added: its record is in the table. */
void sums_add(const struct sample_record *record);
/** It stands for another size from now on. */
void sums_grow(const struct sample_record *from, const struct sample_record *to);
/** It was freed. */
void sums_free(const struct sample_record *record);

#endif
