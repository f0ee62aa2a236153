/* segment.h - the part of an object that its table can be trusted in. */
#ifndef HAK_SEGMENT_H
#define HAK_SEGMENT_H

#include "stack/cfi.h"

#if STACK_HAS_TABLES

/** Narrows the object to the segment that its table lies in, with all entries: between segments there may be pages that nobody
 * can read. False: its headers do not say which. */
bool segment_of_table(struct cfi_object *object);

#endif
#endif
