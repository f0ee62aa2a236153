/* serve.c - hakmem serve: figures of running processes over HTTP, as Prometheus fetches them. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"
#include "serve.h"

/* Without requests, how often it looks whether the processes are still there. */
enum { LOOK_MS = 1000 };

struct arguments {
  const char *name, *host, *port, *socket;
  char **processes;
  size_t count;
};

enum { KEY_NAME = 1000, KEY_HOST, KEY_PORT, KEY_SOCKET };

static const struct argp_option options[] = {
    {"port", KEY_PORT, "PORT", 0, "listen at this port; 0: at any that is free", 0},
    {"host", KEY_HOST, "ADDRESS", 0, "of this machine's address, instead of 127.0.0.1", 0},
    {"socket", KEY_SOCKET, "PATH", 0, "listen at a Unix socket instead", 0},
    {"name", KEY_NAME, "PROGRAM", 0,
     "serve all processes of this name, whenever they start, instead of those of PID", 0},
    {0},
};

static error_t set_port(struct arguments *arguments, const char *text) {
  char *end;
  long number = strtol(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != 0 || number > 65535) {
    complain("--port=%s: accepted: 0..65535", text);
    return EINVAL;
  }
  arguments->port = text;
  return 0;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case KEY_PORT:
    return set_port(arguments, value);
  case KEY_HOST:
    arguments->host = value;
    return 0;
  case KEY_SOCKET:
    arguments->socket = value;
    return 0;
  case KEY_NAME:
    arguments->name = value;
    return 0;
  case ARGP_KEY_ARGS:
    arguments->processes = &state->argv[state->next];
    arguments->count = (size_t)(state->argc - state->next);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "PID...",
    .doc = "Serve figures of processes that run on hakmem over HTTP: /metrics for Prometheus, in "
           "OpenMetrics, and /debug/pprof/heap for pprof. The processes are only read, they need "
           "no option and do nothing for it.",
};

static bool is_right(const struct arguments *arguments) {
  if ((arguments->port != NULL) == (arguments->socket != NULL))
    complain("say where to listen, either by --port=PORT or by --socket=PATH");
  else if (arguments->socket != NULL && arguments->host != NULL)
    complain("--host goes with --port, not with --socket");
  else if ((arguments->name != NULL) == (arguments->count > 0))
    complain("name processes, either by their numbers or by --name=PROGRAM");
  else return true;
  return false;
}

static int open_all(struct served *served, const struct arguments *arguments) {
  int code = 0;
  for (size_t i = 0; i < arguments->count && code == 0; i++)
    code = served_add(served, arguments->processes[i]);
  if (served->name != NULL) served_refresh(served);
  return code;
}

static void announce(const struct served *served, int fd) {
  char address[256];
  printf("serving");
  for (size_t i = 0; i < served->count; i++)
    printf("%s %s (%d)", i > 0 ? " and" : "", served->remotes[i]->program, served->remotes[i]->pid);
  if (served->count == 0) printf(" nobody so far");
  printf(" at %s\n", listen_address(fd, address, sizeof address));
  fflush(stdout);
}

/* Drops those that have ended, of the processes that were given by number. */
static void look(struct served *served) {
  for (size_t i = served->count; i-- > 0;)
    if (remote_look_on(served->remotes[i]) == REMOTE_ENDED) {
      remote_report(served->remotes[i], REMOTE_ENDED);
      served_drop(served, i);
    }
}

/* True: it is time to end. */
static bool take_signals(int signals) {
  struct signalfd_siginfo signal;
  while (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal)
    if (signal.ssi_signo != SIGCHLD) return true;
  http_resume();
  return false;
}

/* Until a signal, or until the last of the processes that were given by number has ended, and one look more: who asks
 * in that moment is told. */
static int work(struct MHD_Daemon *daemon, struct served *served, int signals) {
  struct pollfd fds[] = {{.fd = http_descriptor(daemon), .events = POLLIN},
                         {.fd = signals, .events = POLLIN}};
  for (uint64_t next = now_ms() + LOOK_MS;;) {
    if (poll(fds, 2, http_timeout(daemon, LOOK_MS)) < 0 && errno != EINTR) {
      complain("poll: %s", strerror(errno));
      return 1;
    }
    if (fds[1].revents != 0 && take_signals(signals)) return 0;
    http_work(daemon);
    if (now_ms() < next) continue;
    next = now_ms() + LOOK_MS;
    http_look();
    if (served->name != NULL) continue;
    if (served->count == 0) return 1;
    look(served);
  }
}

static int serve(struct served *served, const struct arguments *arguments) {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGINT);
  sigaddset(&awaited, SIGTERM);
  sigaddset(&awaited, SIGCHLD);
  sigprocmask(SIG_BLOCK, &awaited, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD,
         SIG_DFL); /* the parent may have ignored it, and then its children leave no status */
  int fd =
      arguments->socket != NULL
          ? listen_at_path(arguments->socket)
          : listen_at(arguments->host != NULL ? arguments->host : "127.0.0.1", arguments->port);
  if (fd < 0) return 1;
  int code = 1, signals = signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK);
  struct MHD_Daemon *daemon = http_start(fd, served);
  if (daemon == NULL) close(fd);
  else {
    announce(served, fd);
    code = work(daemon, served, signals);
    http_stop(daemon);
  }
  if (arguments->socket != NULL) unlink(arguments->socket);
  close(signals);
  return code;
}

int command_serve(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0 || !is_right(&arguments))
    return EXIT_USAGE;
  struct served served = {.name = arguments.name};
  int code = open_all(&served, &arguments);
  if (code == 0) code = serve(&served, &arguments);
  served_free(&served);
  return code;
}
