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

/* How often it looks whether the processes are still there, and whether a child hangs; where there is neither it sleeps. */
enum { LOOK_MS = 1000, SLEEP_MS = 60 * 1000 };

/* A child that reads a machine gives a process so much of its time: one that lies, or is very large, is read last from then on. */
enum { SHARES = 4 };

struct arguments {
  const char *name, *host, *port, *socket, *token_file;
  bool all, classes, remote;
  int mode;       /* of the socket; -1: not said */
  double seconds; /* 0: not said */
  int most;
  char **processes;
  size_t count;
};

enum {
  KEY_NAME = 1000,
  KEY_HOST,
  KEY_PORT,
  KEY_SOCKET,
  KEY_ALL,
  KEY_CLASSES,
  KEY_REMOTE,
  KEY_TOKEN_FILE,
  KEY_MODE,
  KEY_DEADLINE,
  KEY_MOST
};

static const struct argp_option options[] = {
    {"port", KEY_PORT, "PORT", 0, "listen at this port; 0: at any that is free", 0},
    {"host", KEY_HOST, "ADDRESS", 0, "listen on this address (default 127.0.0.1)", 0},
    {"allow-remote", KEY_REMOTE, NULL, 0,
     "let --host be an address that other machines reach; needs --token-file", 0},
    {"socket", KEY_SOCKET, "PATH", 0, "listen at a Unix socket instead", 0},
    {"mode", KEY_MODE, "MODE", 0, "permissions of the socket, octal (default 600)", 0},
    {"token-file", KEY_TOKEN_FILE, "FILE", 0,
     "answer only requests with \"Authorization: Bearer TOKEN\", the first line of FILE", 0},
    {"name", KEY_NAME, "PROGRAM", 0,
     "serve all processes of this name, whenever they start, instead of those of PID", 0},
    {"all", KEY_ALL, NULL, 0,
     "serve all processes of the machine that run on hakmem; at a port it needs --token-file", 0},
    {"most", KEY_MOST, "NUMBER", 0, "serve at most NUMBER processes (default 1000)", 0},
    {"deadline", KEY_DEADLINE, "SECONDS", 0,
     "with --all: answer with what is read within this time (default 1)", 0},
    {"classes", KEY_CLASSES, NULL, 0,
     "with --all: also memory by size of blocks, some 100 series for each process", 0},
    {0},
};

/* In octal, or else in decimal digits. */
static error_t set_number(int *number, const char *option, const char *text, bool octal,
                          unsigned long least, unsigned long most) {
  char *end;
  unsigned long given = strtoul(text, &end, octal ? 8 : 10);
  if (text[0] < '0' || text[0] > '9' || *end != 0 || given < least || given > most) {
    complain(octal ? "--%s=%s: accepted: %lo..%lo, octal" : "--%s=%s: accepted: %lu..%lu", option,
             text, least, most);
    return EINVAL;
  }
  *number = (int)given;
  return 0;
}

static error_t set_deadline(struct arguments *arguments, const char *text) {
  char *end;
  arguments->seconds = strtod(text, &end);
  if (end != text && *end == 0 && arguments->seconds >= 0.1 && arguments->seconds <= 60) return 0;
  complain("--deadline=%s: accepted: 0.1..60", text);
  return EINVAL;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case KEY_ALL:
    arguments->all = true;
    return 0;
  case KEY_CLASSES:
    arguments->classes = true;
    return 0;
  case KEY_REMOTE:
    arguments->remote = true;
    return 0;
  case KEY_TOKEN_FILE:
    arguments->token_file = value;
    return 0;
  case KEY_MODE:
    return set_number(&arguments->mode, "mode", value, true, 0, 0777);
  case KEY_MOST:
    return set_number(&arguments->most, "most", value, false, 1, 100000);
  case KEY_DEADLINE:
    return set_deadline(arguments, value);
  case KEY_PORT:
    arguments->port = value;
    return set_number(&(int){0}, "port", value, false, 0, 65535);
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
    .args_doc = "--port=PORT|--socket=PATH PID...\n--port=PORT|--socket=PATH "
                "--name=PROGRAM\n--port=PORT|--socket=PATH --all",
    .doc = "Serve figures of processes that run on hakmem over HTTP: /metrics for Prometheus, in "
           "OpenMetrics, and /debug/pprof/heap and /debug/pprof/allocs for pprof. The processes "
           "are only read, they need "
           "no option and do nothing for it.",
};

/* Whoever may not read a process learns nothing of it: at a port there is a token, unless a user serves what was named here. */
static bool is_right(const struct arguments *arguments) {
  bool port = arguments->port != NULL;
  if (port == (arguments->socket != NULL))
    complain("say where to listen, either by --port=PORT or by --socket=PATH");
  else if (!port && arguments->host != NULL) complain("--host goes with --port, not with --socket");
  else if (port && arguments->mode >= 0) complain("--mode goes with --socket, not with --port");
  else if (arguments->all + (arguments->name != NULL) + (arguments->count > 0) != 1)
    complain("name processes, either by their numbers or by --name=PROGRAM, or use --all");
  else if (!arguments->all && (arguments->classes || arguments->seconds > 0))
    complain("--classes and --deadline go with --all");
  else if (port && arguments->all && arguments->token_file == NULL)
    complain("--all at a port needs --token-file: any user of this machine could ask there; or "
             "--socket, which has an owner");
  else if (arguments->remote && arguments->token_file == NULL)
    complain("--allow-remote needs --token-file");
  else return arguments->token_file == NULL || access_check_file(arguments->token_file);
  return false;
}

static int open_all(struct served *served, const struct arguments *arguments) {
  struct left_out left_out;
  int code = 0;
  for (size_t i = 0; i < arguments->count && code == 0; i++)
    code = served_add(served, arguments->processes[i]);
  if (served->name != NULL) served_refresh(served, &left_out, now_ms() + served->deadline_ms);
  return code;
}

static void announce(const struct served *served, int fd) {
  char address[256];
  struct served_process *process = NULL;
  printf("serving");
  for (size_t i = 0; (process = served_next(served, process)) != NULL; i++)
    printf("%s %s (%d)", i > 0 ? " and" : "", process->remote.program, process->remote.pid);
  if (served->all) printf(" all processes on hakmem");
  else if (served_count(served) == 0) printf(" nobody so far");
  printf(" at %s\n", listen_address(fd, address, sizeof address));
  fflush(stdout);
}

/* Drops those that have ended, of the processes that were given by number. */
static void look(const struct served *served) {
  struct served_process *process = NULL;
  while ((process = served_next(served, process)) != NULL)
    if (remote_has_ended(&process->remote)) {
      remote_report(&process->remote, REMOTE_ENDED);
      served_drop(process);
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
static int work(struct MHD_Daemon *daemon, const struct served *served, int signals) {
  struct pollfd fds[] = {{.fd = http_descriptor(daemon), .events = POLLIN},
                         {.fd = signals, .events = POLLIN}};
  for (uint64_t next = now_ms() + LOOK_MS;;) {
    int most = (served->name == NULL && !served->all) || job_count() > 0 ? LOOK_MS : SLEEP_MS;
    if (poll(fds, 2, http_timeout(daemon, most)) < 0 && errno != EINTR) {
      complain("poll: %s", strerror(errno));
      return 1;
    }
    if (fds[1].revents != 0 && take_signals(signals)) return 0;
    http_work(daemon);
    if (now_ms() < next) continue;
    next = now_ms() + LOOK_MS;
    http_look();
    if (served->name != NULL || served->all) continue;
    if (served_count(served) == 0) return 1;
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
  int fd = arguments->socket != NULL
               ? listen_at_path(arguments->socket, arguments->mode >= 0 ? arguments->mode : 0600)
               : listen_at(arguments->host != NULL ? arguments->host : "127.0.0.1", arguments->port,
                           arguments->remote);
  if (fd < 0) return -fd;
  int code = 1, signals = signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK);
  struct http http = {served, arguments->token_file};
  struct MHD_Daemon *daemon = http_start(fd, &http);
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
  struct arguments arguments = {.mode = -1, .most = 1000};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0 || !is_right(&arguments))
    return EXIT_USAGE;
  struct served served = {.name = arguments.name,
                          .all = arguments.all,
                          .classes = !arguments.all || arguments.classes,
                          .most = (size_t)arguments.most,
                          .deadline_ms = SNAPSHOT_LATE_MS,
                          .each_ms = SNAPSHOT_LATE_MS};
  if (arguments.all) {
    served.deadline_ms = arguments.seconds > 0 ? (uint64_t)(arguments.seconds * 1000) : 1000;
    served.each_ms = served.deadline_ms / SHARES;
  }
  if (!served_open(&served)) return 1;
  int code = open_all(&served, &arguments);
  if (code == 0) code = serve(&served, &arguments);
  served_close(&served);
  return code;
}
