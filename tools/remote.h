/* remote.h - a process that runs on hakmem, read from outside: it is neither stopped nor asked. Or one that did: its core.
 *
 * What is read is another's memory, perhaps another user's: every size in it is checked before it is used, and a
 * structure that changes while it is read gives a wrong figure, never a crash.
 */
#ifndef HAKMEM_REMOTE_H
#define HAKMEM_REMOTE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/directory.h"
#include "observe/shared.h"
#include "target.h"

struct remote {
  struct core *core; /* NULL: it lives */
  int pid;
  int task; /* a thread of it that lives: the first one's end leaves a zombie, which has no memory to be looked at */
  uint64_t birth; /* when it began, in ticks since the machine did */
  char program[64];
  bool
      shared; /* it may not be read, but keeps a page for us: there is nothing of what follows but the names in `layout` */
  /* Where hakmem is: a library of its own (then these are all its bytes), or part of the program. */
  char object[PATH_MAX];
  bool is_library;
  uint64_t object_start, object_end;
  /* Addresses there; 0: there is no such thing in its build. */
  uint64_t directory, map, heaps, lists, units, pool, stuck, chunks, first_chunk, os_counts,
      counters_shared, counters_supplied, started, option_values, option_table, samples, requests,
      heap_none, option_sources, lost, guarded, guarded_slots;
  struct directory_layout layout;
};

/** Finds hakmem in the process that `text` names (NULL: the user named none), and reads its directory. 0, or an exit code after a line that says what is
 * wrong and what to do. */
int remote_open(struct remote *remote, const char *text);

/** The same, but looks into no more files of the process after `late_ms`, of now_ms(): it may have mapped any number. 0: no limit. */
int remote_open_by(struct remote *remote, const char *text, uint64_t late_ms);

/** After remote_open has failed: hakmem is in the process, but could not be read there or made no sense. */
bool remote_is_refused(const struct remote *remote);

/** The same of the process that a core was made of. Then remote_close. */
struct core_places;
int remote_open_core(struct remote *remote, const char *path, const struct core_places *places);
/** The same of a core that was opened: it is the remote's from then on, also where hakmem is not found in it. */
int remote_of_core(struct remote *remote, struct core *core);
/** Forgets the core, if it was one. */
void remote_close(struct remote *remote);

/** Whose memory it is. */
struct target remote_target(const struct remote *remote);

/* So many heaps are read at most: a list may have no end. */
enum { HEAPS_MOST = 100000 };

/** Copies `bytes` from there; false when they cannot be read. */
bool remote_read(const struct remote *remote, uint64_t address, void *to, size_t bytes);
/** Words of 8 bytes from up to READ_AT_ONCE places; how many of them, from the first on, could be read. */
enum { READ_AT_ONCE = 256 };
unsigned remote_read_words(const struct remote *remote, const uint64_t *addresses, unsigned count,
                           uint64_t *words);
/** A word of 8 bytes; 0 when it cannot be read. */
uint64_t remote_word(const struct remote *remote, uint64_t address);
/** Writes there; false where that is not allowed, or there is no memory. */
bool remote_write(const struct remote *remote, uint64_t address, const void *from, size_t bytes);
/** An option in effect; false where it has none of that name, or has not read its options yet. */
bool remote_option(const struct remote *remote, const char *name, int32_t *value);
/** Is what looks like a directory of hakmem still where it was? */
bool remote_has_directory(const struct remote *remote);

/* --- the process (remote_process.c) -------------------------------------------------------------------- */

/** Sets who it is; 0: a process of this machine's kind. Else an exit code after a complaint. */
int remote_check_process(struct remote *remote, const char *text);
/** After a refusal: 0 where it keeps a page for us, else an exit code after one line that says why. */
int remote_refused(struct remote *remote);
/** A number of /proc/PID/stat, by its place as proc(5) counts them, behind the name; 0: there is no such process. */
uint64_t remote_stat(int pid, int field);
/** Reads all of it into `line`. Returns where the name ends, or NULL; a name may hold anything, but no bracket follows it. */
const char *remote_stat_line(int pid, char *line, size_t room);
/** Says why it may not be read, and what to do; an exit code. */
int remote_refuse(const struct remote *remote);
/** Replaces control characters: what another process wrote is not to reach a terminal as it is. */
void make_printable(char *text, size_t room);

enum remote_state {
  REMOTE_THERE,
  REMOTE_ENDED,     /* another one may have its number by now */
  REMOTE_OTHER,     /* it has become another program (exec) */
  REMOTE_UNREADABLE /* or there is no memory here */
};
/** Without a look into its memory. */
bool remote_has_ended(const struct remote *remote);
/** What has become of it since remote_open. */
enum remote_state remote_look(const struct remote *remote);
/** True: the thread by which it is read has ended, and from now on it is another one. */
bool remote_follow(struct remote *remote);
/** As remote_look, by another thread where need be. */
enum remote_state remote_look_on(struct remote *remote);
/** A complaint that says so, and an exit code; nothing and 0 while it is there. */
int remote_report(const struct remote *remote, enum remote_state state);

/* --- the page that it keeps (remote_shared.c) ------------------------------------------------------------ */

/** Reads it, and what the kernel says is resident; false: there is none. */
bool remote_read_shared(const struct remote *remote, struct shared_figures *figures,
                        uint64_t *resident);
/** Seconds since it was written. */
double remote_shared_age(const struct shared_figures *figures);

/* --- what is read ---------------------------------------------------------------------------------------- */

/* A copy of a structure, of which fields are taken. */
struct copy {
  const char *bytes;
  size_t size;
};

/** An integer in it; 0 where there is no such field. */
uint64_t copy_get(struct copy copy, struct directory_field field);
/** The same of element `i` of an array in it. */
uint64_t copy_get_at(struct copy copy, struct directory_array array, uint32_t i,
                     struct directory_field field);

#endif
