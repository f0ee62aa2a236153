/* serve.h - the parts of `hakmem serve`.
 *
 * The command is serve.c, sockets are serve_listen.c, which processes are served is served.c, who may ask is serve_access.c, requests are
 * serve_http.c and connections serve_clients.c. All that is one thread, which reads no other process: what a request wants is made by a
 * child (serve_job.c), which reads processes (serve_read.c) and may hang in one, or be led astray by it. Then it is killed.
 */
#ifndef HAKMEM_SERVE_H
#define HAKMEM_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "container.h"
#include "limits.h"
#include "metrics.h"
#include "remote.h"

/* --- the processes (served.c) ----------------------------------------------------------------------------- */

struct served_process {
  _Atomic int
      pid; /* 0: this place is free. It is set last, since who fills the place may be killed at any step */
  struct remote remote;
  struct container container;
  struct limit_place limit;
  uint64_t key;      /* of the program that it ran when it was found */
  uint64_t round;    /* in which it was found, or seen again */
  uint64_t tried_ms; /* when it was read last; 0: never */
  bool late;         /* that was not done in time */
};

struct served_table;

struct served {
  const char *
      name; /* all processes of this name, whenever they start; NULL and not `all`: those that a user gave by number */
  bool all; /* all of the machine */
  bool classes;               /* with figures by size of blocks */
  size_t most;                /* processes, no more */
  uint64_t deadline_ms;       /* for one answer */
  uint64_t each_ms;           /* of it for one process */
  struct served_table *table; /* is shared with the children */
  int turn;                   /* a file, locked by the one that changes the table */
};

/** False after a complaint: no memory. */
bool served_open(struct served *served);
void served_close(struct served *served);
/** Adds the process that `text` names; 0, or an exit code after a complaint. */
int served_add(struct served *served, const char *text);
/** All, or those of the name: drops the ones that have ended or run another program, and finds new ones until `late_ms`. Those given by number: opens the
 * ones again that run another program by now. Complains of those that cannot be served, unless all are. */
void served_refresh(struct served *served, struct left_out *left_out, uint64_t late_ms);
/** The next one behind `before`, the first behind NULL; NULL: that was the last. */
struct served_process *served_next(const struct served *served,
                                   const struct served_process *before);
size_t served_count(const struct served *served);
/** The one of this number; NULL: it is not served. */
struct served_process *served_find(const struct served *served, int pid);
void served_drop(struct served_process *process);

/** A child begins to read this process, 0: no other one. */
void served_reads(const struct served *served, int pid);
/** How often served_reads was called, by any child; sets which process is being read. */
uint64_t served_steps(const struct served *served, int *pid);
/** Reading it hung: it is left out for a minute, when it hangs again for two, and so on. */
void served_shun(struct served *served, int pid);

/* --- what children write (serve_read.c) ------------------------------------------------------------------- */

enum page { PAGE_METRICS_PLAIN, PAGE_METRICS_OPEN, PAGE_INDEX, PAGES, PAGE_PROFILE = PAGES };

/* Of a profile. */
struct wish {
  long pid;       /* 0: not said */
  char name[256]; /* empty: not said */
  long seconds;   /* of what grows in that time; 0: of what there is now */
  bool allocated; /* readers show first what was allocated since the start, instead of what lives */
};

/* The exit code of a child: what it wrote is the answer, or says why there is none. */
enum made { MADE, MADE_NOT, MADE_NO_MEMORY, MADE_NOT_FOUND, MADE_ASK_AGAIN };

enum made read_page(struct served *served, enum page page, const struct wish *wish, int fd);

extern const char metrics_path[], profile_path[], allocs_path[];

/* --- sockets (serve_listen.c) ----------------------------------------------------------------------------- */

/** A socket that listens; less than 0 after a complaint: the exit code, negated. `port`: 0 takes a free one. `remote`: it need not be one that this machine alone reaches. */
int listen_at(const char *host, const char *port, bool remote);
/** The same at a path, whose permissions are `mode`. A socket there that nobody listens at is replaced. */
int listen_at_path(const char *path, int mode);
/** Prints "http://127.0.0.1:9105/metrics" or "unix:/path". Returns `text`. */
char *listen_address(int fd, char *text, size_t room);

/* --- who may ask (serve_access.c) ------------------------------------------------------------------------- */

/** Can a token be read there, and not by others? Else complains. */
bool access_check_file(const char *path);
/** Is `authorization` "Bearer " and what the file has now? Without a file everybody may ask. */
bool access_is_granted(const char *path, const char *authorization);

/* --- children (serve_job.c) ------------------------------------------------------------------------------- */

/* An answer that a child makes, for all that wait for it. */
struct job;

/** What is to be sent: a file, which stays the job's. */
struct job_answer {
  enum made made;
  int fd;
};

/** Starts making it; `wish` for a profile. NULL: errno says why, EBUSY that it would be too many profiles at once. SIGCHLD comes when it is ready. The
 * caller is its only user so far. */
struct job *job_start(struct served *served, enum page page, const struct wish *wish);
/** One more, or one less, that wants it. Nobody left: it ends. */
struct job *job_use(struct job *job);
void job_leave(struct job *job);
/** Is it ready? Then it is taken as often as one likes. */
bool job_is_ready(const struct job *job);
struct job_answer job_take(const struct job *job);
/** Takes notice of children that have ended. */
void job_reap(void);
/** Kills children that hang in a process, and starts them again without it. */
void job_watch(void);
/** How many are being made. */
unsigned job_count(void);

/* --- connections (serve_clients.c) ------------------------------------------------------------------------ */

enum { CONNECTIONS = 64 }; /* at once */

struct MHD_Connection;

struct client {
  struct client *older, *younger; /* in the order in which they last did something */
  struct MHD_Connection *connection;
  int fd;
  /* Waits for a job; its answer is ready, or there will be none since it, or we, have to go; the answer is being sent. */
  enum { CLIENT_RESTS, CLIENT_WAITS, CLIENT_READY, CLIENT_GONE, CLIENT_SENDS } state;
  enum page page; /* that it waits for */
  struct job *
      job; /* which makes it, NULL: one that is still to be started; then the one that has it, until all is sent */
  bool closed; /* shut down, which libmicrohttpd has not seen yet */
};

/** A new one; the one that has done nothing for longest has to go where there are nearly too many. NULL: no memory. */
struct client *client_add(struct MHD_Connection *connection, int fd);
void client_remove(struct client *client);
/** It does something. Leaves the job that it had. */
void client_moves(struct client *client);
/** The one that did nothing for longest of those that wait, behind `before`; NULL: there is none. */
struct client *client_waiting(const struct client *before);
/** Before one more answer is sent: there may be only so many. */
void client_make_room(void);

/* --- answers (serve_http.c) ------------------------------------------------------------------------------- */

struct MHD_Daemon;

struct http {
  struct served *served;
  const char *token_file; /* NULL: everybody may ask who can connect */
};

/** Answers at the socket, which it then owns; NULL after a complaint. */
struct MHD_Daemon *http_start(int fd, struct http *http);
/** Becomes readable when http_work has something to do. */
int http_descriptor(struct MHD_Daemon *daemon);
/** Milliseconds until it has, at most `most`. */
int http_timeout(struct MHD_Daemon *daemon, int most);
void http_work(struct MHD_Daemon *daemon);
/** Goes on with requests whose answer has become ready. */
void http_resume(void);
/** Ends those whose client has gone meanwhile: libmicrohttpd does not look at them. */
void http_look(void);
/** Closes the socket and every connection. */
void http_stop(struct MHD_Daemon *daemon);

#endif
