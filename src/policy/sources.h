/* sources.h - where options come from: the program's symbol `hakmem_options`, the system's file, the environment; each goes before those in front
 * of it. (jemalloc has the same order: malloc_conf, /etc/malloc.conf, MALLOC_CONF.)
 *
 * Called once, by options_read; nothing else may run in the process yet that could use it.
 */
#ifndef HAK_POLICY_SOURCES_H
#define HAK_POLICY_SOURCES_H

#include <stdbool.h>
#include <stddef.h>

/* Values that a tool reads (observe/directory.h). */
enum option_source {
  SOURCE_DEFAULT, /* of the profile */
  SOURCE_PROGRAM,
  SOURCE_FILE,
  SOURCE_ENVIRONMENT
};

/** Reads symbol and file. `secure`: the environment does not count. */
void sources_open(bool secure);

/** What is said of an option, by whom; NULL: nothing. */
const char *source_text(const char *name, enum option_source *source);

/** For messages: " (in /etc/hakmem.conf)", or nothing. */
const char *source_place(enum option_source source);

/** The next string of symbol and file, from `*position` on, which starts at 0; NULL: there is none left. */
const char *source_line(size_t *position, enum option_source *source);

#endif
