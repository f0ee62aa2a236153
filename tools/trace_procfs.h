/* trace_procfs.h - what /proc says of processes that a recorded program has started. */
#ifndef HAKMEM_TRACE_PROCFS_H
#define HAKMEM_TRACE_PROCFS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/** The program and its arguments, NULL-terminated, in one piece: free() it. NULL: /proc does not say, or no memory. */
char **procfs_command(pid_t pid);

/** Calls `see` for each child of each thread of the process. */
void procfs_each_child(pid_t pid, void (*see)(pid_t child, pid_t parent, void *argument),
                       void *argument);

enum procfs_answer { PROCFS_NO, PROCFS_YES, PROCFS_UNKNOWN };

/** Has the process mapped a file of that name? */
enum procfs_answer procfs_has_mapped(pid_t pid, const char *name);

/** Why no library can be preloaded into the program that the process executes: "statically linked", for example. NULL: it
 * can, or /proc does not say. `path`: of the program. */
const char *procfs_obstacle(pid_t pid, char path[static PATH_MAX]);

#endif
