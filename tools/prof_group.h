/* prof_group.h - hakmem prof --by: what lives, by another key than its stack. */
#ifndef HAKMEM_PROF_GROUP_H
#define HAKMEM_PROF_GROUP_H

#include "prof.h"
#include "snapshot.h"

/** The key of that name; false after a complaint. */
bool prof_by(const char *name, enum prof_by *by);
/** Is the key known of each live sample alone, so that it is not known of what was freed? */
bool prof_by_is_of_samples(enum prof_by by);
/** The groups of a report that has its rows. False: out of memory. */
bool prof_group(struct report *report, const struct profile *profile,
                const struct snapshot *snapshot);
/** "function", as --by has it. */
const char *prof_by_name(enum prof_by by);
/** "function", or "functions". */
const char *prof_by_noun(enum prof_by by, size_t count);
/** A line for each group, and one for those that the table leaves out. */
void prof_group_table(const struct report *report, FILE *out);
/** One line; without groups, an object for each place. */
void prof_group_json(const struct report *report, FILE *out);

#endif
