/* container.h - what the control groups of this process allow it, and how near it is to that.
 *
 * A group may be used up while the machine has memory left: the kernel then reclaims from that
 * group alone, and kills in it when there is nothing to reclaim. The purger asks here how
 * early to give memory back. Figures and reasons: docs/decisions/0011.
 *
 * Three ask: the purger's own thread, which has descriptors of its own (os/file.h), a thread of the
 * program that has taken much memory (release/limit.h), and, where there are more than four processors, the fifth thread that
 * allocates (heap/homes.c). Nothing is read when a program starts.
 * Whatever is missing, forbidden, too long or not understood counts as "no limit" and nothing is
 * printed. A program's thread may have a small stack: what takes room lies in the structure.
 *
 * Thread safety: none; one thread uses one `struct container`. After a fork the child reads anew:
 * it may be moved to another group.
 */
#ifndef HAK_POLICY_CONTAINER_H
#define HAK_POLICY_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a Kubernetes pod under systemd the path takes 230 bytes. */
enum { CONTAINER_PATH = 1024, CONTAINER_LEVELS = 16 };

/* A group with a limit: our own or one above it. */
struct container_level {
  uint64_t limit_bytes; /* memory.max: beyond it is reclaimed, then killed; 0: none */
  uint64_t high_bytes;  /* memory.high: beyond it threads are slowed down; 0: none */
  size_t path_length;   /* its directory: so much of container.directory */
};

/* Two paths and what stands around them; the lines of overlay mounts, which may be longer, are not
 * ours. */
enum { CONTAINER_LINE = 2 * CONTAINER_PATH + 512 };

struct container_lines {
  int file;
  unsigned reads;
  size_t at, end;
  char buffer[512];
  char line[CONTAINER_LINE];
};

/* Our group in one tree: its path as the kernel tells it, where in its directory the mount ends. */
struct container_place {
  char path[CONTAINER_PATH]; /* "": not in such a tree */
  size_t mount_length;       /* part of the directory that is the mount point; 0: not mounted */
  size_t below_length;       /* the rest of it */
};

struct container {
  uint64_t limit_bytes; /* the smallest of the levels; 0: none */
  uint64_t high_bytes;
  bool first_version;               /* the memory controller is one of cgroup v1 */
  char directory[CONTAINER_PATH];   /* of our group in the memory controller's tree; "": none */
  char pressure_of[CONTAINER_PATH]; /* of our group in the tree of cgroup v2; "": none */
  size_t level_count;               /* innermost first; those beyond the room are left out */
  struct container_level levels[CONTAINER_LEVELS];
  /* Of use during a call only. */
  struct container_lines lines;
  struct container_place unified, own; /* cgroup v2, and the controller's tree of v1 */
  char path[CONTAINER_PATH];
};

/** Finds the groups of this process and their limits. With HAKMEM_CONTAINER=0 nothing is read and
 * all is "none". A limit may change at any time: a caller that wants to know reads again. */
void container_read(struct container *container);

/** Processors that the smallest quota of the groups allows at once, a part of one counted as one; 0: no quota. With HAKMEM_CONTAINER=0
 * nothing is read, and it is 0. What container_read found in `container` is lost. */
unsigned container_processors(struct container *container);

/** Bytes that the group with the smallest limit uses now, with its caches of files; 0: unknown. */
uint64_t container_current(struct container *container);

/** True when some level uses more than its memory.high or than 90% of its limit, caches of files
 * that lie idle left out.
 *
 * 90%: the kernel does nothing for a group before its limit is reached, and where there are neither
 * files nor swap to reclaim, it then kills at once: memory.pressure says nearly nothing before. The
 * last tenth is the time to react in. memory.high needs no margin: beyond it threads are slowed
 * down, not killed. Idle caches: a group that reads files fills itself to the limit with them, for
 * ever, and the kernel takes them back at little cost. */
bool container_is_tight(struct container *container);

/** The same of half the limits: no time for stocks that only save time. */
bool container_is_half_used(struct container *container);

/* What a process may still use. */
struct container_room {
  uint64_t
      tight; /* until container_is_tight, 0: it is so; UINT64_MAX: nothing is known of a limit */
  uint64_t limit; /* until the kernel acts */
};
/** Of the level that has the least, if `coming` more bytes were in use. */
struct container_room container_room(struct container *container, uint64_t coming);

/** A descriptor that tells of tasks that wait for memory: 100 ms within 2 s, in our own group where
 * that may be asked for, else in the whole machine. -1 where neither is there or permitted.
 *
 * os_file_wait gives OS_FILE_NEWS (POLLPRI) when that has come to pass, once in 2 s at most: asking
 * uses it up. OS_FILE_GONE (POLLERR) says that the group was removed, and would say so for ever:
 * close it and open another. Closed with os_file_close. */
int container_pressure_open(struct container *container);

/* --- for tests -------------------------------------------------------------------------------- */

/** Files that stand for those of the kernel. */
struct container_places {
  const char *cgroup;    /* /proc/thread-self/cgroup */
  const char *mountinfo; /* /proc/thread-self/mountinfo */
  const char *pressure;  /* /proc/pressure/memory */
  const char *root;      /* what mount points are relative to: "" */
};

void container_read_at(struct container *container, const struct container_places *places);
unsigned container_processors_at(struct container *container,
                                 const struct container_places *places);
int container_pressure_open_at(struct container *container, const struct container_places *places);

#endif
