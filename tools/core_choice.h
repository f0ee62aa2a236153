/* core_choice.h - for commands that read a process or a core: the options that name one, and which of the two it is. */
#ifndef HAKMEM_CORE_CHOICE_H
#define HAKMEM_CORE_CHOICE_H

#include "core.h"
#include "processes.h"

struct core_choice {
  const char *core; /* NULL: none was named */
  struct core_places places;
};

/** The children of a command's parser: one, whose input is a struct core_choice. */
extern const struct argp_child core_children[];

/** Is it a core: --core, or the one word that names a file that begins as one? With a '/' in it a word is always a file. */
bool core_is_chosen(struct core_choice *choice, const struct words *words);

/** Both a core and a process, or options of a core without one: an exit code after a complaint; else 0. */
int core_refuse_choice(struct core_choice *choice, const struct words *words);

/** Opens the core, or the one process that the words name. 0, or an exit code after a complaint. Then remote_close. */
int remote_open_chosen(struct remote *remote, struct core_choice *choice,
                       const struct words *words);

#endif
