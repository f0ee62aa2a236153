/* serve_http.c - see serve.h: what is answered to which request, by libmicrohttpd.
 *
 * An answer is made whole before it is sent, so a client that reads slowly, or never, holds its own answer and nothing else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "metrics.h"
#include "pprof.h"
#include "serve.h"

/* A connection on which nothing happens is closed after as many seconds: more than a minute, since scrapes come a minute apart at most
 * as a rule, and by the same connection. */
enum { CONNECTIONS = 64, PATIENCE = 90, SECONDS_MOST = 3600 };

static const char metrics_path[] = "/metrics";
static const char profile_path[] = "/debug/pprof/heap";
static const char allocs_path[] = "/debug/pprof/allocs"; /* where Pyroscope and Parca look for it */

/* --- answers ---------------------------------------------------------------------------------------------- */

struct answer {
  unsigned status;
  const char *type;
  char *text; /* of malloc; NULL: there was no memory for it, or it is in `file` */
  size_t size;
  int file;    /* -1: none */
  bool nobody; /* there is no process to tell of: what was complained of says why */
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

static struct answer no_memory(void) {
  return say(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
}

/* What is wrong with the processes, of which none can be read. */
static struct answer nobody(const char *problems) {
  struct answer answer =
      say(MHD_HTTP_SERVICE_UNAVAILABLE, "%s",
          problems != NULL && problems[0] != 0 ? problems : "there is no process any more\n");
  answer.nobody = true;
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
  enum MHD_Result queued = MHD_queue_response(connection, answer->status, response);
  MHD_destroy_response(response);
  return queued;
}

/* --- /metrics --------------------------------------------------------------------------------------------- */

/* A client that names OpenMetrics, unless with q=0, which means that it does not take it. */
static bool takes_openmetrics(struct MHD_Connection *connection) {
  const char *accepted =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
  const char *at = accepted != NULL ? strcasestr(accepted, "application/openmetrics-text") : NULL;
  if (at == NULL) return false;
  const char *end = at + strcspn(at, ","), *quality = strcasestr(at, ";q=");
  return quality == NULL || quality >= end || strtod(quality + strlen(";q="), NULL) > 0;
}

/* How many of the processes could be read. */
static unsigned add_all(struct metrics *metrics, const struct served *served) {
  unsigned read = 0;
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  for (size_t i = 0; snapshot != NULL && i < served->count; i++) {
    struct remote *remote = served->remotes[i];
    if (remote_report(remote, snapshot_take_on(snapshot, remote)) != 0) continue;
    metrics_add(metrics, snapshot, remote);
    snapshot_free(snapshot);
    read++;
  }
  free(snapshot);
  return read;
}

static struct answer metrics_page(struct served *served, FILE *problems, bool open) {
  struct answer answer = {.status = MHD_HTTP_OK, .file = -1};
  answer.type = open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                     : "text/plain; version=0.0.4; charset=utf-8";
  FILE *out = open_memstream(&answer.text, &answer.size);
  struct metrics *metrics = metrics_open(open ? METRICS_OPEN : METRICS_PLAIN);
  if (out == NULL || metrics == NULL) {
    if (out != NULL) fclose(out);
    free(answer.text);
    free(metrics);
    return no_memory();
  }
  unsigned read = add_all(metrics, served);
  bool made = metrics_close(metrics, out);
  made = fclose(out) == 0 && made;
  /* Nobody of that name is no failure, unless there is a reason. */
  if (made && (read > 0 || (served->name != NULL && ftell(problems) == 0))) return answer;
  free(answer.text);
  return made ? nobody(NULL) : no_memory();
}

/* --- /debug/pprof/heap ------------------------------------------------------------------------------------ */

/* False: there is such an argument, and it is no number from `least` to `most`. */
static bool get_number(struct MHD_Connection *connection, const char *name, long least, long most,
                       long *number) {
  const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
  if (text == NULL) return true;
  char *end;
  *number = strtol(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == 0 && *number >= least && *number <= most;
}

static struct remote *find_process(const struct served *served, long pid) {
  for (size_t i = 0; i < served->count; i++)
    if (served->remotes[i]->pid == pid || (pid == 0 && served->count == 1))
      return served->remotes[i];
  return NULL;
}

static struct answer refuse_profile(int error) {
  if (error == EBUSY) return say(MHD_HTTP_SERVICE_UNAVAILABLE, "too many profiles at once\n");
  return say(MHD_HTTP_SERVICE_UNAVAILABLE, "no profile can be started: %s\n", strerror(error));
}

/* Starts making it, and sets *job; or says why not. */
static struct answer start_profile(struct MHD_Connection *connection, struct served *served,
                                   bool allocated, struct job **job) {
  long pid = 0;
  struct wish wish = {.allocated = allocated};
  if (!get_number(connection, "pid", 1, INT_MAX, &pid) ||
      !get_number(connection, "seconds", 1, SECONDS_MOST, &wish.seconds))
    return say(MHD_HTTP_BAD_REQUEST, "accepted: pid=NUMBER, seconds=1..%d\n", SECONDS_MOST);
  if (served->count == 0) return nobody(NULL);
  struct remote *remote = find_process(served, pid);
  if (remote == NULL && pid != 0)
    return say(MHD_HTTP_NOT_FOUND, "process %ld is not served; / names those that are\n", pid);
  if (remote == NULL)
    return say(MHD_HTTP_BAD_REQUEST, "of which process? pid=NUMBER; / names them\n");
  *job = job_start(remote, &wish, connection);
  return *job != NULL ? (struct answer){.file = -1} : refuse_profile(errno);
}

static struct answer take_profile(struct job *job) {
  bool made;
  struct stat status = {0};
  struct answer answer = {.status = MHD_HTTP_OK, .type = "application/octet-stream"};
  answer.file = job_take(job, &made);
  if (fstat(answer.file, &status) == 0) answer.size = (size_t)status.st_size;
  if (!made && answer.size == 0) {
    close(answer.file);
    return say(MHD_HTTP_INTERNAL_SERVER_ERROR, "the profile could not be made\n");
  }
  if (!made) {
    answer.status = MHD_HTTP_SERVICE_UNAVAILABLE;
    answer.type = "text/plain; charset=utf-8";
  }
  return answer;
}

/* --- / ---------------------------------------------------------------------------------------------------- */

static void write_escaped(const char *text, FILE *out) {
  for (; *text != 0; text++)
    if (strchr("<>&\"'", *text) != NULL) fprintf(out, "&#%d;", *text);
    else fputc(*text, out);
}

static struct answer index_page(const struct served *served) {
  struct answer answer = {.status = MHD_HTTP_OK, .type = "text/html; charset=utf-8", .file = -1};
  FILE *out = open_memstream(&answer.text, &answer.size);
  if (out == NULL) return no_memory();
  fprintf(out,
          "<!DOCTYPE html>\n<html lang=\"en\"><title>hakmem serve</title>\n<h1>hakmem serve</h1>\n"
          "<p><a href=\"%s\">%s</a>: where the memory is, for Prometheus\n<ul>\n",
          metrics_path, metrics_path);
  for (size_t i = 0; i < served->count; i++) {
    int pid = served->remotes[i]->pid;
    fprintf(out, "<li>process %d, ", pid);
    write_escaped(served->remotes[i]->program, out);
    if (pprof_is_built())
      fprintf(out, ": <a href=\"%s?pid=%d\">%s?pid=%d</a>, a heap profile for pprof", profile_path,
              pid, profile_path, pid);
    fputc('\n', out);
  }
  fprintf(out, "</ul>\n%s</html>\n", served->count == 0 ? "<p>No process so far.\n" : "");
  if (fclose(out) == 0) return answer;
  free(answer.text);
  return no_memory();
}

/* --- requests --------------------------------------------------------------------------------------------- */

static bool is_profile(const char *path) {
  return pprof_is_built() && (strcmp(path, profile_path) == 0 || strcmp(path, allocs_path) == 0);
}

static struct answer find_page(struct MHD_Connection *connection, struct served *served,
                               const char *path, FILE *problems, struct job **job) {
  if (strcmp(path, metrics_path) == 0)
    return metrics_page(served, problems, takes_openmetrics(connection));
  if (is_profile(path))
    return start_profile(connection, served, strcmp(path, allocs_path) == 0, job);
  return index_page(served);
}

static bool is_page(const char *path) {
  return strcmp(path, "/") == 0 || strcmp(path, metrics_path) == 0 || is_profile(path);
}

static struct answer answer_to(struct MHD_Connection *connection, struct served *served,
                               const char *path, const char *method, struct job **job) {
  if (!is_page(path)) return say(MHD_HTTP_NOT_FOUND, "no such page; / lists them\n");
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return say(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
  char *said = NULL;
  size_t length = 0;
  FILE *problems = open_memstream(&said, &length);
  if (problems == NULL) return no_memory();
  collect_complaints(problems);
  served_refresh(served);
  struct answer answer = find_page(connection, served, path, problems, job);
  collect_complaints(NULL);
  bool known = fclose(problems) == 0 && length > 0;
  if (answer.nobody && known) {
    free(answer.text);
    answer = nobody(said);
  }
  free(said);
  return answer;
}

/* What libmicrohttpd keeps for a request: nothing, then this, or the profile that it waits for. */
static char has_headers;

/* Called when the headers are there, for each piece of a body, at the end of it, and when a profile is ready. */
static enum MHD_Result handle(void *served, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **state) {
  (void)version;
  (void)body;
  if (*state == NULL) {
    *state = &has_headers;
    return MHD_YES;
  }
  if (*body_size > 0) {
    *body_size = 0; /* thrown away */
    return MHD_YES;
  }
  struct job *job = NULL;
  struct answer answer;
  if (*state == &has_headers) answer = answer_to(connection, served, path, method, &job);
  else answer = take_profile(*state);
  if (job == NULL) return send_answer(connection, &answer);
  free(answer.text);
  *state = job;
  MHD_suspend_connection(connection);
  return MHD_YES;
}

static void completed(void *argument, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code) {
  (void)argument;
  (void)connection;
  (void)code;
  if (*state != NULL && *state != &has_headers) job_end(*state);
  *state = NULL;
}

/* --- the daemon ------------------------------------------------------------------------------------------- */

struct MHD_Daemon *http_start(int fd, struct served *served) {
  struct MHD_Daemon *daemon =
      MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, served,
                       MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                       (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE,
                       MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_END);
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

void http_work(struct MHD_Daemon *daemon) { MHD_run(daemon); }

void http_resume(void) {
  for (void *connection; (connection = job_ended()) != NULL;) MHD_resume_connection(connection);
}

/* As other servers have it, one that says no more has gone, though it might still read. */
static bool has_gone(void *connection) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  struct pollfd fd = {.fd = info != NULL ? info->connect_fd : -1, .events = POLLRDHUP};
  return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void http_look(void) {
  for (void *connection; (connection = job_kill(has_gone)) != NULL;)
    MHD_resume_connection(connection);
}

void http_stop(struct MHD_Daemon *daemon) {
  /* None may be suspended at the end. */
  for (void *connection; (connection = job_kill(NULL)) != NULL;) MHD_resume_connection(connection);
  MHD_stop_daemon(daemon);
}
