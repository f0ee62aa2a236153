/* serve.h - hakmem serve: what its parts share. The command is serve.c, sockets are serve_listen.c, which processes are
 * served is served.c, answers to requests are serve_http.c, profiles serve_profile.c. All of it runs in one thread; a profile is made
 * by a child. */
#ifndef HAKMEM_SERVE_H
#define HAKMEM_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "remote.h"

/* --- the processes (served.c) ----------------------------------------------------------------------------- */

struct served {
  const char *
      name; /* all processes of this name, whenever they start; NULL: those that a user gave by number */
  struct remote **remotes;
  size_t count;
};

/** Adds the process that `text` names; 0, or an exit code after a complaint. */
int served_add(struct served *served, const char *text);
/** Those of the name: drops the ones that have ended, and finds new ones. Those given by number: opens the ones again that run another
 * program by now. Complains of those that cannot be served. */
void served_refresh(struct served *served);
void served_drop(struct served *served, size_t i);
void served_free(struct served *served);

/* --- sockets (serve_listen.c) ----------------------------------------------------------------------------- */

/** A socket that listens, or -1 after a complaint. `port`: 0 takes a free one. */
int listen_at(const char *host, const char *port);
/** The same at a path. A socket there that nobody listens at is replaced. */
int listen_at_path(const char *path);
/** Prints "http://127.0.0.1:9105/metrics" or "unix:/path". Returns `text`. */
char *listen_address(int fd, char *text, size_t room);

/* --- profiles (serve_profile.c) --------------------------------------------------------------------------- */

struct job;

struct wish {
  long seconds;   /* of what grows in that time; 0: of what there is now */
  bool allocated; /* readers show first what was allocated since the start, instead of what lives */
};

/** Starts making a heap profile. NULL: errno says why, EBUSY that it would be too many at once. SIGCHLD comes when it is ready. */
struct job *job_start(struct remote *remote, const struct wish *wish, void *owner);
/** The owner of one that has become ready since; NULL: none has. */
void *job_ended(void);
/** Of one that is ready: a file, the caller's from now on, with the profile, or where it was not made with the reason. */
int job_take(struct job *job, bool *made);
void job_end(struct job *job);
/** Kills one that is not ready, and returns its owner; NULL: there is none. `is_chosen`: one whose owner is; NULL: any. */
void *job_kill(bool (*is_chosen)(void *owner));

/* --- answers (serve_http.c) ------------------------------------------------------------------------------- */

struct MHD_Daemon;

/** Answers at the socket, which it then owns; NULL after a complaint. */
struct MHD_Daemon *http_start(int fd, struct served *served);
/** Becomes readable when http_work has something to do. */
int http_descriptor(struct MHD_Daemon *daemon);
/** Milliseconds until it has, at most `most`. */
int http_timeout(struct MHD_Daemon *daemon, int most);
void http_work(struct MHD_Daemon *daemon);
/** Goes on with requests whose profile has become ready. */
void http_resume(void);
/** Ends those whose client has gone meanwhile: libmicrohttpd does not look at them. */
void http_look(void);
/** Closes the socket and every connection. */
void http_stop(struct MHD_Daemon *daemon);

#endif
