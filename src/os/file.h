/* file.h - small files of the kernel, for a thread of the library's own.
 *
 * A thread that opens files behind a program's back can break it. A program that closes descriptor
 * 0 and opens a file counts on getting 0 again, one that becomes a daemon closes every descriptor
 * it finds, and the child of a fork keeps what was open at that moment. So such a thread first
 * takes a table of descriptors for itself (os_files_of_own), and makes none of the other calls
 * where it cannot have one.
 *
 * All go to the kernel past libc's wrappers: programs replace those, and then allocate in them.
 * Every function keeps errno, begins again when a signal comes in between, and can be made to fail
 * by the tests (fault.h).
 */
#ifndef HAK_OS_FILE_H
#define HAK_OS_FILE_H

#include "os/os.h"

/** From now on the calling thread has descriptors of its own, none of them open; nothing changes
 * for the other threads. False where that cannot be had (kernels before 5.9): nothing has changed
 * then. Only for a thread of ours that prints nothing: what is opened next is its stderr. */
bool os_files_of_own(void);

/** Can no other thread see the descriptors that this one opens? It has a table of its own, or the process has no other thread. Where it is false an open file
 * takes a number that another thread counts on, for a moment: only what cannot be left to a thread of ours is opened then. A system call at
 * most. */
bool os_files_are_safe(void);

enum os_file_use { OS_FILE_READ, OS_FILE_READ_WRITE };

/** Opens a file that exists; closed on exec. On failure the errno, below 0; EBUSY: another thread has put its own in its place. */
int os_file_open(const char *path, enum os_file_use use);

/** Reads at most `bytes`. 0 at the end, -1 on failure. */
ptrdiff_t os_file_read(int file, void *into, size_t bytes);

/** Writes `bytes` by one call; false when that did not take all of them. */
bool os_file_write(int file, const void *from, size_t bytes);

/** Appends to a file, which is made if it is not there, with the permissions that the process gives new files: by one call, so
 * that what several processes append does not mix. `follow`: also where the name is a symbolic link. 0, or the errno. */
int os_file_append(const char *path, bool follow, const void *from, size_t bytes);

/** Makes a file for this user alone (0600). Its descriptor, or the errno below 0: EEXIST if there is one of that name. */
int os_file_make(const char *path);

/** Writes all of `bytes`, and says how many were written. 0, or the errno: EFAULT if not all of them can be read. */
int os_file_put(int file, const void *from, size_t bytes, size_t *written);

/** Writes over what the file has `at` so many bytes from its start. 0, or the errno. */
int os_file_put_at(int file, const void *from, size_t bytes, uint64_t at);

/** Reads what is there; false: not all of it is. */
bool os_file_get_at(int file, void *into, size_t bytes, uint64_t at);

/** Closes a file that was written. 0, or the errno: what was written may be lost. */
int os_file_finish(int file);

/** Another name for a file, in place of one that has it. 0, or the errno. */
int os_file_rename(const char *from, const char *to);

/** A file of memory that others may read: made at `path` for this user alone (0600), in place of one of this user that has
 * that name, and mapped. Nothing is made outside of tmpfs. NULL, and `*error`. */
void *os_file_share(const char *path, size_t bytes, int *error);

/** Removes a name. */
void os_file_remove(const char *path);

/** A name in a directory, as the kernel tells it. */
struct os_file_entry {
  uint64_t number;
  int64_t offset;
  uint16_t bytes; /* to the next one */
  uint8_t kind;
  char name[];
};

/** The next names of a directory that was opened to be read, into a buffer that is aligned as they are. How many bytes; 0: there are no more;
 * below 0 on failure. */
ptrdiff_t os_file_entries(int directory, void *into, size_t bytes);

struct stat;
/** fstatat. Past libc's wrapper, which programs replace: an allocation in it would come back here. Never made to fail by the tests. False on
 * failure. */
bool os_file_status(int directory, const char *name, struct stat *status, int flags);

enum os_file_kind { OS_FILE_NONE, OS_FILE_ORDINARY, OS_FILE_OTHER };

enum { OS_FILE_HERE = -100 };
/** What has that name: nothing that can be looked at; an ordinary file, and when it was changed last, in nanoseconds since 1970; or a link, a directory or
 * a pipe. `directory`: OS_FILE_HERE where the name is a path. */
enum os_file_kind os_file_changed(int directory, const char *name, uint64_t *nanoseconds);

/** Removes a name from a directory that is open; no directory. */
void os_file_remove_from(int directory, const char *name);

/** Never made to fail by the tests: no caller could do anything about it. */
void os_file_close(int file);

enum os_file_event {
  OS_FILE_TIMEOUT, /* nothing came */
  OS_FILE_NEWS,    /* POLLPRI: the file has something to tell */
  OS_FILE_GONE     /* POLLERR, POLLHUP, POLLNVAL or failure: nothing will come any more */
};

/** Sleeps until the file has something to tell, at most `milliseconds`; 0 only looks, below 0 is
 * without end. */
enum os_file_event os_file_wait(int file, int64_t milliseconds);

#endif
