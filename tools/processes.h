/* processes.h - which processes a command is for: by their numbers, by the name of their program, or all that run on hakmem. */
#ifndef HAKMEM_PROCESSES_H
#define HAKMEM_PROCESSES_H

#include "remote.h"
#include <argp.h>

/* What stands behind the options. */
struct words {
  char **all;
  size_t count;
};

/** For the parser of a command: keeps the words, and refuses all else. */
int take_words(int key, const struct argp_state *state, struct words *words);

/* Numbers of processes, in their order. */
struct processes {
  int *all;
  size_t count;
  bool one_name; /* all are of one name, which was given */
  size_t unread; /* of a search for all: those of which it cannot be told what they run on */
};

/** The name that ps shows, of which the kernel keeps 15 characters, or that of the program's file. A longer name that the kernel has cut is
 * the file's, if that begins so: another program may begin so too. */
bool process_has_name(const char *pid, const char *name);
/** Those that the words name; 0, or an exit code after a complaint. A number is taken as it is. Then processes_free. */
int processes_find(struct processes *processes, const struct words *words);
/** All that run on hakmem, as far as that may be known. False: out of memory, or no /proc. */
bool processes_find_all(struct processes *processes);
void processes_free(struct processes *processes);

/** Opens the one process that the words name. 0, or an exit code after a complaint, which lists those that run on hakmem where none
 * or several are named. */
int remote_open_words(struct remote *remote, const struct words *words);

#endif
