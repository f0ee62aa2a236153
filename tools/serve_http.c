/* serve_http.c - see serve.h: what is answered to which request, by libmicrohttpd.
 *
 * An answer is made whole before it is sent, and several clients that wait for the same page get one copy of it, made after the last of
 * them has asked. One page is made at a time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "pprof.h"
#include "serve.h"

/* A connection on which nothing happens is closed after as many seconds: more than a minute, since scrapes come a minute apart at most
 * as a rule, and by the same connection. */
enum { PATIENCE = 90, SECONDS_MOST = 3600 };

/* The page that is being made; NULL: none. */
static struct job *making;

/* --- answers ---------------------------------------------------------------------------------------------- */

struct answer {
  unsigned status;
  const char *type;
  char *text; /* of malloc; NULL: there was no memory for it, or it is in `file` */
  size_t size;
  int file; /* -1: none */
};

static struct answer say(unsigned status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static struct answer say(unsigned status, const char *format, ...) {
  struct answer answer = {.status = status, .type = "text/plain; charset=utf-8", .file = -1};
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&answer.text, format, arguments);
  va_end(arguments);
  if (length < 0) answer.text = NULL;
  else answer.size = (size_t)length;
  return answer;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, const struct answer *answer) {
  struct MHD_Response *response = NULL;
  if (answer->file >= 0) {
    response = MHD_create_response_from_fd(answer->size, answer->file); /* which it closes */
    if (response == NULL) close(answer->file);
  } else if (answer->text != NULL) {
    response = MHD_create_response_from_buffer(answer->size, answer->text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) free(answer->text);
  }
  if (response == NULL) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  /* The same address answers in two formats. */
  MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT);
  if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  if (answer->status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  enum MHD_Result queued = MHD_queue_response(connection, answer->status, response);
  MHD_destroy_response(response);
  return queued;
}

/* What a child has made. */
static struct answer take_answer(enum page page, const struct job *job) {
  static const unsigned statuses[] = {[MADE] = MHD_HTTP_OK,
                                      [MADE_NOT] = MHD_HTTP_SERVICE_UNAVAILABLE,
                                      [MADE_NO_MEMORY] = MHD_HTTP_SERVICE_UNAVAILABLE,
                                      [MADE_NOT_FOUND] = MHD_HTTP_NOT_FOUND,
                                      [MADE_ASK_AGAIN] = MHD_HTTP_BAD_REQUEST};
  static const char *const types[] = {
      [PAGE_METRICS_PLAIN] = "text/plain; version=0.0.4; charset=utf-8",
      [PAGE_METRICS_OPEN] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
      [PAGE_INDEX] = "text/html; charset=utf-8",
      [PAGE_PROFILE] = "application/octet-stream"};
  struct job_answer made = job_take(job);
  struct stat status = {0};
  if (made.made > MADE_ASK_AGAIN) made.made = MADE_NOT;
  if (fstat(made.fd, &status) != 0 || status.st_size == 0)
    return say(MHD_HTTP_INTERNAL_SERVER_ERROR, "the answer could not be made\n");
  struct answer answer = {.status = statuses[made.made],
                          .type = made.made == MADE ? types[page] : "text/plain; charset=utf-8",
                          .size = (size_t)status.st_size};
  answer.file = fcntl(made.fd, F_DUPFD_CLOEXEC, 0); /* the same memory */
  if (answer.file < 0) return say(MHD_HTTP_SERVICE_UNAVAILABLE, "%s\n", strerror(errno));
  return answer;
}

static enum MHD_Result send_job(struct client *client) {
  struct answer answer = take_answer(client->page, client->job);
  client->state = CLIENT_SENDS;
  client_make_room();
  return send_answer(client->connection, &answer);
}

/* --- pages ------------------------------------------------------------------------------------------------ */

/* Starts the page for which somebody waits longest, for all that wait for it; again where no child is to be had and it is made at once. */
static void make_next(struct served *served) {
  struct client *client;
  while (making == NULL) {
    for (client = client_waiting(NULL); client != NULL && client->job != NULL;)
      client = client_waiting(client);
    if (client == NULL) return;
    enum page page = client->page;
    if ((making = job_start(served, page, NULL)) == NULL) return; /* the next look tries again */
    for (; client != NULL; client = client_waiting(client))
      if (client->job == NULL && client->page == page) client->job = job_use(making);
    if (!job_is_ready(making)) return;
    job_leave(making);
    making = NULL;
  }
}

/* A client that names OpenMetrics, unless with q=0, which means that it does not take it. */
static bool takes_openmetrics(struct MHD_Connection *connection) {
  const char *accepted =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
  const char *at = accepted != NULL ? strcasestr(accepted, "application/openmetrics-text") : NULL;
  if (at == NULL) return false;
  const char *end = at + strcspn(at, ","), *quality = strcasestr(at, ";q=");
  return quality == NULL || quality >= end || strtod(quality + strlen(";q="), NULL) > 0;
}

/* --- profiles --------------------------------------------------------------------------------------------- */

/* False: there is such an argument, and it is no number from `least` to `most`. */
static bool get_number(struct MHD_Connection *connection, const char *name, long least, long most,
                       long *number) {
  const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
  if (text == NULL) return true;
  char *end;
  *number = strtol(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == 0 && *number >= least && *number <= most;
}

static bool get_name(struct MHD_Connection *connection, char *name, size_t room) {
  const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "name");
  int length = snprintf(name, room, "%s", text != NULL ? text : "");
  return text == NULL || (length > 0 && (size_t)length < room);
}

/* Sets the client's job, or says why not. */
static struct answer start_profile(struct client *client, struct served *served, bool allocated) {
  struct wish wish = {.allocated = allocated};
  if (!get_number(client->connection, "pid", 1, INT_MAX, &wish.pid) ||
      !get_number(client->connection, "seconds", 1, SECONDS_MOST, &wish.seconds) ||
      !get_name(client->connection, wish.name, sizeof wish.name))
    return say(MHD_HTTP_BAD_REQUEST, "accepted: pid=NUMBER or name=PROGRAM, seconds=1..%d\n",
               SECONDS_MOST);
  client->job = job_start(served, PAGE_PROFILE, &wish);
  if (client->job != NULL) return (struct answer){.file = -1};
  if (errno == EBUSY) return say(MHD_HTTP_SERVICE_UNAVAILABLE, "too many profiles at once\n");
  return say(MHD_HTTP_SERVICE_UNAVAILABLE, "no profile can be started: %s\n", strerror(errno));
}

/* --- requests --------------------------------------------------------------------------------------------- */

static bool is_profile(const char *path) {
  return pprof_is_built() && (strcmp(path, profile_path) == 0 || strcmp(path, allocs_path) == 0);
}

static bool is_page(const char *path) {
  return strcmp(path, "/") == 0 || strcmp(path, metrics_path) == 0 || is_profile(path);
}

/* An answer at once, or the client waits. */
static struct answer answer_to(struct client *client, const struct http *http, const char *path,
                               const char *method) {
  struct MHD_Connection *connection = client->connection;
  struct answer answer = {.file = -1};
  const char *authorization =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
  if (!access_is_granted(http->token_file, authorization))
    return say(MHD_HTTP_UNAUTHORIZED, "Authorization: Bearer TOKEN, as --token-file has it\n");
  if (!is_page(path)) return say(MHD_HTTP_NOT_FOUND, "no such page; / lists them\n");
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return say(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
  if (is_profile(path)) {
    client->page = PAGE_PROFILE;
    answer = start_profile(client, http->served, strcmp(path, allocs_path) == 0);
    if (client->job == NULL) return answer;
  } else {
    client->page = strcmp(path, "/") == 0          ? PAGE_INDEX
                   : takes_openmetrics(connection) ? PAGE_METRICS_OPEN
                                                   : PAGE_METRICS_PLAIN;
  }
  client->state = CLIENT_WAITS;
  make_next(http->served);
  return answer;
}

/* What libmicrohttpd keeps for a request: nothing, then this. */
static char has_headers;

static struct client *client_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info != NULL ? info->socket_context : NULL;
}

/* Called when the headers are there, for each piece of a body, at the end of it, and when an answer is ready. */
static enum MHD_Result handle(void *argument, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **state) {
  struct client *client = client_of(connection);
  (void)version;
  (void)body;
  if (client == NULL) return MHD_NO;
  if (*state == NULL) {
    client_moves(client);
    *state = &has_headers;
    return MHD_YES;
  }
  if (*body_size > 0) {
    *body_size = 0; /* thrown away */
    return MHD_YES;
  }
  if (client->state == CLIENT_RESTS) {
    struct answer answer = answer_to(client, argument, path, method);
    if (client->state == CLIENT_RESTS) return send_answer(connection, &answer);
    if (client->job != NULL && job_is_ready(client->job)) client->state = CLIENT_READY;
  }
  if (client->state == CLIENT_GONE) return MHD_NO;
  if (client->state == CLIENT_READY) return send_job(client);
  MHD_suspend_connection(connection);
  return MHD_YES;
}

static void completed(void *argument, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code) {
  struct client *client = client_of(connection);
  (void)argument;
  (void)code;
  if (client != NULL) client_moves(client);
  *state = NULL;
}

static void connected(void *argument, struct MHD_Connection *connection, void **context,
                      enum MHD_ConnectionNotificationCode code) {
  (void)argument;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = client_add(connection, info != NULL ? info->connect_fd : -1);
  } else {
    client_remove(*context);
    *context = NULL;
  }
}

/* --- the daemon ------------------------------------------------------------------------------------------- */

static struct http *http_state;

struct MHD_Daemon *http_start(int fd, struct http *http) {
  http_state = http;
  struct MHD_Daemon *daemon = MHD_start_daemon(
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, http,
      MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE, MHD_OPTION_NOTIFY_COMPLETED, completed,
      NULL, MHD_OPTION_NOTIFY_CONNECTION, connected, NULL, MHD_OPTION_END);
  if (daemon == NULL) complain("libmicrohttpd does not start");
  return daemon;
}

int http_descriptor(struct MHD_Daemon *daemon) {
  return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int http_timeout(struct MHD_Daemon *daemon, int most) {
  MHD_UNSIGNED_LONG_LONG timeout;
  if (MHD_get_timeout(daemon, &timeout) != MHD_YES || timeout > (unsigned)most) return most;
  return (int)timeout;
}

static unsigned connections_of(struct MHD_Daemon *daemon) {
  return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

/* At its limit libmicrohttpd no longer waits for new connections. The run after one that has closed some does again: without it nobody would wake us. */
void http_work(struct MHD_Daemon *daemon) {
  unsigned before;
  do {
    before = connections_of(daemon);
    MHD_run(daemon);
  } while (connections_of(daemon) < before);
}

void http_resume(void) {
  job_reap();
  if (making != NULL && job_is_ready(making)) {
    job_leave(making);
    making = NULL;
  }
  make_next(http_state->served);
  for (struct client *client = NULL; (client = client_waiting(client)) != NULL;)
    if (client->job != NULL && job_is_ready(client->job)) {
      client->state = CLIENT_READY;
      MHD_resume_connection(client->connection);
    }
}

/* As other servers have it, one that says no more has gone, though it might still read. */
static bool has_gone(const struct client *client) {
  struct pollfd fd = {.fd = client->fd, .events = POLLRDHUP};
  return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void give_up(struct client *client) {
  job_leave(client->job);
  client->job = NULL;
  client->state = CLIENT_GONE;
  MHD_resume_connection(client->connection);
}

void http_look(void) {
  job_watch();
  for (struct client *client = NULL; (client = client_waiting(client)) != NULL;)
    if (client->job != NULL && client->page == PAGE_PROFILE && !job_is_ready(client->job) &&
        has_gone(client))
      give_up(client);
  http_resume();
}

void http_stop(struct MHD_Daemon *daemon) {
  /* None may be suspended at the end. */
  for (struct client *client = NULL; (client = client_waiting(client)) != NULL;) give_up(client);
  job_leave(making);
  making = NULL;
  MHD_stop_daemon(daemon);
}
