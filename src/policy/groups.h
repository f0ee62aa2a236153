/* groups.h - which control groups the process is in, and files of the kernel that are read line by line.
 *
 * For container.c alone; who may call it, and what is done about what cannot be read, stands in container.h.
 */
#ifndef HAK_POLICY_GROUPS_H
#define HAK_POLICY_GROUPS_H

#include "policy/container.h"

/** Finds the group of the process that `controller` ("memory", "cpu") acts on: fills `directory`, `pressure_of` and `first_version`. NULL: it
 * is in none, or none that is mounted. */
const struct container_place *groups_find(struct container *container,
                                          const struct container_places *places,
                                          const char *controller);

/** The directory of the group above the one whose path has `length` bytes: how long its path is; 0: that was the root of the mounted tree. */
size_t groups_above(const struct container *container, const struct container_place *place,
                    size_t length);

/** Puts the three parts one after the other; false and "" when they do not fit. */
bool groups_join(char path[CONTAINER_PATH], const char *start, size_t start_length,
                 const char *middle, const char *end);

/** Ends the string at the next `end` and gives what follows it; NULL: there is none. */
char *groups_cut(char *text, char end);

/** strcmp(a, b) == 0. Not by that function: each one of libc that the library does not use otherwise is one more name to look up whenever a
 * program starts. */
bool groups_is(const char *text, const char *word);

bool groups_open_lines(struct container_lines *lines, const char *path);

/** The next line that fits; longer ones are skipped. False at the end, which closes the file. */
bool groups_next_line(struct container_lines *lines);

#endif
