/* serve_http.c - see serve.h: what is answered to which request, by libmicrohttpd.
 *
 * An answer is made whole before it is sent, so a client that reads slowly, or never, holds its own answer and nothing else.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "metrics.h"
#include "serve.h"

/* A connection that nothing happens on is closed after as many seconds: more than a minute, the usual time between two scrapes, which
 * come by the same connection. */
enum { CONNECTIONS = 64, PATIENCE = 90 };

static const char plain_text[] = "text/plain; charset=utf-8";

struct answer {
  unsigned status;
  const char *type;
  char *text; /* of malloc, or NULL */
  size_t size;
};

/* --- pages ------------------------------------------------------------------------------------------------ */

static struct answer say(unsigned status, const char *text) {
  char *copy = strdup(text);
  return (struct answer){status, plain_text, copy, copy != NULL ? strlen(copy) : 0};
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

static void add_all(struct metrics *metrics, const struct served *served, unsigned *read) {
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  for (size_t i = 0; snapshot != NULL && i < served->count; i++) {
    const struct remote *remote = served->remotes[i];
    if (remote_report(remote, snapshot_take(snapshot, remote)) != 0) continue;
    metrics_add(metrics, snapshot, remote);
    snapshot_free(snapshot);
    (*read)++;
  }
  free(snapshot);
}

static struct answer metrics_page(struct served *served, bool open) {
  struct answer answer = {MHD_HTTP_OK,
                          open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                               : "text/plain; version=0.0.4; charset=utf-8",
                          NULL, 0};
  char *problems = NULL;
  size_t problems_size = 0;
  unsigned read = 0;
  FILE *out = open_memstream(&answer.text, &answer.size);
  FILE *complaints = open_memstream(&problems, &problems_size);
  struct metrics *metrics = metrics_open(open ? METRICS_OPEN : METRICS_PLAIN);
  bool made = out != NULL && complaints != NULL && metrics != NULL;
  if (made) {
    collect_complaints(complaints);
    served_refresh(served);
    add_all(metrics, served, &read);
    collect_complaints(NULL);
  }
  if (metrics != NULL) made &= metrics_close(metrics, out != NULL ? out : stderr);
  if (out != NULL) made &= fclose(out) == 0;
  if (complaints != NULL) made &= fclose(complaints) == 0;
  /* None could be read, and there is a reason; nobody of that name is none. */
  bool failed = read == 0 && (served->name == NULL || problems_size > 0);
  if (!made || failed) {
    free(answer.text);
    answer = say(MHD_HTTP_SERVICE_UNAVAILABLE, !made               ? "out of memory\n"
                                               : problems_size > 0 ? problems
                                                                   : "the process has ended\n");
  }
  free(problems);
  return answer;
}

static void write_escaped(const char *text, FILE *out) {
  for (; *text != 0; text++)
    if (strchr("<>&\"'", *text) != NULL) fprintf(out, "&#%d;", *text);
    else fputc(*text, out);
}

static struct answer index_page(struct served *served) {
  struct answer answer = {MHD_HTTP_OK, "text/html; charset=utf-8", NULL, 0};
  FILE *out = open_memstream(&answer.text, &answer.size);
  if (out == NULL) return say(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
  fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\"><title>hakmem serve</title>\n<h1>hakmem "
               "serve</h1>\n<ul>\n<li><a href=\"/metrics\">/metrics</a>: where the memory is, for "
               "Prometheus\n</ul>\n<p>Processes at the last look:\n<ul>\n");
  for (size_t i = 0; i < served->count; i++) {
    fprintf(out, "<li>%d ", served->remotes[i]->pid);
    write_escaped(served->remotes[i]->program, out);
    fputc('\n', out);
  }
  fprintf(out, "</ul>\n</html>\n");
  if (fclose(out) == 0) return answer;
  free(answer.text);
  return say(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
}

/* --- requests --------------------------------------------------------------------------------------------- */

static struct answer answer_to(struct MHD_Connection *connection, struct served *served,
                               const char *path, const char *method) {
  bool known = strcmp(path, "/") == 0 || strcmp(path, "/metrics") == 0;
  if (!known) return say(MHD_HTTP_NOT_FOUND, "there is / and /metrics\n");
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return say(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
  if (strcmp(path, "/") == 0) return index_page(served);
  return metrics_page(served, takes_openmetrics(connection));
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, const struct answer *answer) {
  struct MHD_Response *response =
      MHD_create_response_from_buffer(answer->size, answer->text, MHD_RESPMEM_MUST_FREE);
  if (response == NULL) {
    free(answer->text);
    return MHD_NO;
  }
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

static enum MHD_Result handle(void *argument, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **state) {
  (void)version;
  (void)body;
  /* Called when the headers are there, and again when the body is. What comes with a request is thrown away. */
  static int seen;
  if (*state == NULL) {
    *state = &seen;
    return MHD_YES;
  }
  if (*body_size > 0) {
    *body_size = 0;
    return MHD_YES;
  }
  struct answer answer = answer_to(connection, argument, path, method);
  return answer.text != NULL ? send_answer(connection, &answer) : MHD_NO;
}

/* --- the daemon ------------------------------------------------------------------------------------------- */

struct MHD_Daemon *http_start(int fd, struct served *served) {
  struct MHD_Daemon *daemon =
      MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, handle, served, MHD_OPTION_LISTEN_SOCKET, fd,
                       MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                       MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE, MHD_OPTION_END);
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

void http_stop(struct MHD_Daemon *daemon) { MHD_stop_daemon(daemon); }
