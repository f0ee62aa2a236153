/* serve_clients.c - see serve.h. When there are nearly too many connections, or too many answers wait to be sent, the one that has done
 * nothing for longest is closed: whoever asks and reads is served, whatever others do.
 */
#include <stdlib.h>
#include <sys/socket.h>

#include "serve.h"

/* Answers of which a part is still to be sent may have some MB each. libmicrohttpd refuses connections beyond its limit, so some are
 * kept free. */
enum { ANSWERS_MOST = 8, SPARE = 8 };

static struct client *oldest, *youngest;

static void take_out(struct client *client) {
  if (client->older != NULL) client->older->younger = client->younger;
  else oldest = client->younger;
  if (client->younger != NULL) client->younger->older = client->older;
  else youngest = client->older;
}

static void put_last(struct client *client) {
  client->older = youngest;
  client->younger = NULL;
  if (youngest != NULL) youngest->younger = client;
  else oldest = client;
  youngest = client;
}

static void close_client(struct client *client) {
  if (client == NULL) return;
  shutdown(client->fd, SHUT_RDWR);
  client->closed = true;
}

/* The oldest that may be closed, which none is that waits for us; how many may be. */
static unsigned find_oldest(struct client **first) {
  unsigned count = 0;
  *first = NULL;
  for (struct client *client = youngest; client != NULL; client = client->older) {
    if (client->closed || client->state == CLIENT_WAITS) continue;
    *first = client;
    count++;
  }
  return count;
}

struct client *client_add(struct MHD_Connection *connection, int fd) {
  struct client *first, *client = calloc(1, sizeof *client);
  if (client == NULL) return NULL;
  client->connection = connection;
  client->fd = fd;
  put_last(client);
  if (find_oldest(&first) > CONNECTIONS - SPARE) close_client(first);
  return client;
}

void client_remove(struct client *client) {
  if (client == NULL) return;
  take_out(client);
  job_leave(client->job);
  free(client);
}

void client_moves(struct client *client) {
  take_out(client);
  put_last(client);
  job_leave(client->job);
  client->job = NULL;
  client->state = CLIENT_RESTS;
}

struct client *client_waiting(const struct client *before) {
  struct client *client = before != NULL ? before->younger : oldest;
  while (client != NULL && client->state != CLIENT_WAITS) client = client->younger;
  return client;
}

/* Those that wait together have one answer, and stand together here. */
void client_make_room(void) {
  unsigned answers = 0;
  struct client *first = NULL;
  const struct job *before = NULL;
  for (struct client *client = youngest; client != NULL; client = client->older) {
    if (client->closed || client->state != CLIENT_SENDS) continue;
    answers += client->job != before;
    before = client->job;
    first = client;
  }
  if (answers > ANSWERS_MOST) close_client(first);
}
