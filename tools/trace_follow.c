/* trace_follow.c - see trace_follow.h. The recorder adopts the processes whose parents have ended, so that it
 * knows when the last one has. */
#define _GNU_SOURCE
#include "trace_follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "trace_layer/process.h"
#include "trace_procfs.h"
#include "trace_signals.h"

static double now_in_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* --- a process's file -------------------------------------------------------------------------------------------- */

/* "dir/app.htrace" and 1234: "dir/app.1234.htrace", "dir/app.1234-2.htrace" ... */
static char *name_file(const char *output, pid_t pid, int number) {
  const char *slash = strrchr(output, '/');
  const char *name = slash != NULL ? slash + 1 : output, *dot = strrchr(name, '.');
  char *path = NULL, again[16] = "";
  if (dot == NULL || dot == name) dot = output + strlen(output);
  if (number > 1) snprintf(again, sizeof again, "-%d", number);
  int length = (int)(dot - output);
  if (asprintf(&path, "%.*s.%d%s%s", length, output, (int)pid, again, dot) >= 0) return path;
  errno = ENOMEM;
  return NULL;
}

/* No file that is there already is written over: pids are used again. */
static bool make_file(struct recorded *process, const char *output) {
  enum { MOST_OF_A_PID = 10000 };
  for (int number = 1; number < MOST_OF_A_PID; number++) {
    free(process->path);
    process->path = name_file(output, process->pid, number);
    if (process->path == NULL) return false;
    if (trace_file_make(&process->file, process->path)) return true;
    if (errno != EEXIST) return false;
  }
  return false;
}

/* --- seats --------------------------------------------------------------------------------------------------------- */

static void free_seat(struct follow *follow, uint32_t index) {
  struct trace_seat *seat = &follow->common->seats[index];
  uint32_t pid = (uint32_t)atomic_load(&seat->pid) % TRACE_PIDS;
  atomic_fetch_and(&follow->common->known[pid / TRACE_PIDS_OF_A_WORD],
                   ~(UINT32_C(1) << pid % TRACE_PIDS_OF_A_WORD));
  trace_memory_clear(follow->file, index);
  follow->seats[index] = NULL;
  atomic_store(&seat->asks, 0);
  atomic_store(&seat->pid, 0); /* last: it can be taken from here on */
}

/* Without its region. The process waits to be told, and looks ten times a second; its seat is free when it has ended. */
static void refuse(const struct follow *follow, uint32_t index) {
  atomic_store(&follow->common->seats[index].asks, 0);
  const uint32_t ended = 1;
  off_t at = (off_t)(TRACE_REGION_AT(index) + offsetof(struct trace_header, ended));
  if (pwrite(follow->file, &ended, sizeof ended, at) != sizeof ended)
    complain("%s", strerror(errno));
}

/* It keeps its seat until it has ended, and asks no more. */
static void give_up(struct follow *follow, struct recorded *process, int error) {
  complain("%d %s: not recorded: %s%s%s", (int)process->pid,
           process->program != NULL ? process->program : "?",
           process->path != NULL && process->file.error == 0 ? process->path : "",
           process->path != NULL && process->file.error == 0 ? ": " : "",
           process->file.error != 0 ? "the file could not be begun" : strerror(error));
  follow->any_failed = true;
  process->memory->failed = true;
  if (process->file.frame != NULL) trace_file_discard(&process->file);
  process->file.file = -1;
  trace_memory_end(process->memory);
}

static char **command_of(const struct recorded *process) {
  static char unknown[] = "?";
  static char *nothing[] = {unknown, NULL};
  char **command = procfs_command(process->pid);
  if (command != NULL) return command;
  command = malloc(sizeof nothing);
  if (command != NULL) memcpy(command, nothing, sizeof nothing);
  return command;
}

/* Another image of the process has another command. */
static void begin_image(struct recorded *process) {
  char **command = command_of(process);
  if (command != NULL) recorded_begin(process, command);
  else process->memory->failed = true;
  free(command);
}

static void begin_process(struct follow *follow, uint32_t index) {
  const struct trace_seat *seat = &follow->common->seats[index];
  struct recorded *process = recorded_make(follow->file, index);
  if (process == NULL) {
    complain("%d: not recorded: %s", (int)atomic_load(&seat->pid), strerror(errno));
    follow->any_failed = true;
    refuse(follow, index);
    return;
  }
  process->pid = atomic_load(&seat->pid);
  process->start = seat->start;
  process->descent = (struct trace_descent){seat->parent, seat->forked != 0};
  process->times = follow->first->times;
  trace_times_start_later(&process->times);
  follow->seats[index] = process;
  follow->last->next = process;
  follow->last = process;
  if (!make_file(process, follow->output)) {
    int error = errno;
    char **command = command_of(process);
    if (command != NULL) process->program = strdup(command[0]);
    free(command);
    give_up(follow, process, error);
    return;
  }
  begin_image(process);
  if (process->memory->failed) give_up(follow, process, ENOMEM);
}

static void end_process(struct follow *follow, struct recorded *process) {
  bool is_first = process->is_first;
  int64_t started = is_first ? (int64_t)atomic_load(&follow->common->started) : -1;
  recorded_end(process, started);
  follow->any_failed |= process->failed;
  if (is_first) follow->seats[0] = NULL;
  else free_seat(follow, process->seat);
}

/* It goes on without being recorded. Its seat is free when it has ended (free_abandoned): nobody else may write to its
 * region before. */
static void end_of_living(struct follow *follow, struct recorded *process) {
  uint32_t index = process->seat;
  trace_memory_end(process->memory);
  if (process->file.file >= 0) {
    recorded_take(process, false);
    trace_memory_take_gathered(process->memory, &process->file);
  }
  recorded_end(process, -1);
  follow->any_failed |= process->failed;
  follow->seats[index] = NULL;
  atomic_store(&follow->common->seats[index].asks, 0);
}

/* --- a round ------------------------------------------------------------------------------------------------------- */

static void begin_new(struct follow *follow) {
  for (uint32_t i = 1; i < TRACE_SEATS; i++) {
    struct trace_seat *seat = &follow->common->seats[i];
    if (follow->seats[i] == NULL && atomic_load_explicit(&seat->asks, memory_order_acquire) != 0)
      begin_process(follow, i);
  }
}

/* A process that was killed while it sat down. */
static void free_abandoned(struct follow *follow) {
  for (uint32_t i = 1; i < TRACE_SEATS; i++) {
    int32_t pid = atomic_load(&follow->common->seats[i].pid);
    if (follow->seats[i] == NULL && pid != 0 && !trace_process_lives(pid, 0)) free_seat(follow, i);
  }
}

/* The recorder's own children: the program, and those that it has adopted. */
static void reap(struct follow *follow) {
  for (;;) {
    siginfo_t info = {0};
    int status;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return;
    status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    for (int i = 0; i < TRACE_SEATS; i++) {
      struct recorded *process = follow->seats[i];
      if (process == NULL || process->pid != info.si_pid) continue;
      process->ended = true;
      process->status = status;
    }
    if (info.si_pid != follow->first->pid || trace_signals.child == 0) continue;
    follow->wait_status =
        info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
    trace_signals.child = 0;
  }
}

/* True: there may be more of it. */
static bool take(struct follow *follow, struct recorded *process, bool look) {
  const struct trace_header *header = process->memory->header;
  bool ended = process->ended ||
               (look && !process->is_first && !trace_process_lives(process->pid, process->start));
  bool more = false;
  if (process->file.file >= 0) {
    bool is_other = process->memory->images > 0 && !process->memory->failed && !process->is_first;
    if (is_other && atomic_load(&header->image) != atomic_load(&header->accepted)) {
      process->descent.forked = false;
      begin_image(process);
    }
    /* A program that allocates all the time would have the recorder for itself. */
    if (ended) recorded_take(process, true);
    else more = trace_memory_take_some(process->memory, &process->file, false);
  }
  if (ended) end_process(follow, process);
  return more;
}

/* Returns how many are still recorded; `*more`: there may be more of some. */
static unsigned take_all(struct follow *follow, bool look, bool *more) {
  unsigned open = 0;
  *more = false;
  for (int i = 0; i < TRACE_SEATS; i++) {
    if (follow->seats[i] != NULL) *more |= take(follow, follow->seats[i], look);
    open += follow->seats[i] != NULL;
  }
  if (!look) return open;
  free_abandoned(follow);
  atomic_fetch_add(&follow->common->looked, 1);
  trace_wake_all(&follow->common->looked);
  return open;
}

static void take_gathered(struct follow *follow) {
  for (int i = 0; i < TRACE_SEATS; i++)
    if (follow->seats[i] != NULL && follow->seats[i]->file.file >= 0)
      trace_memory_take_gathered(follow->seats[i]->memory, &follow->seats[i]->file);
}

/* --- processes that are not recorded ------------------------------------------------------------------------------------ */

struct follow_seen {
  pid_t pid;
  uint64_t start;
  unsigned unmapped; /* looks in a row at which it had not mapped the library */
  bool noted;
};

struct look {
  struct follow *follow;
  struct follow_seen *seen;
  size_t count, room;
  unsigned may_come; /* that may be recorded yet */
};

/* TRACE_SEATS: none. */
static int seat_of(const struct follow *follow, pid_t pid) {
  int i = 0;
  while (i < TRACE_SEATS && atomic_load(&follow->common->seats[i].pid) != pid) i++;
  return i;
}

static void note(struct follow *follow, pid_t pid, const char *program, const char *reason) {
  if (follow->notes == NULL)
    follow->notes = open_memstream(&follow->notes_text, &follow->notes_size);
  if (follow->notes == NULL) return;
  fprintf(follow->notes, "%d %s: not recorded: %s%c", (int)pid, program, reason, 0);
}

/* One that executes a program just now has not mapped the library yet. */
static void see(pid_t pid, pid_t parent, void *argument) {
  enum { LOOKS = 3 };
  (void)parent;
  struct look *look = argument;
  struct follow *follow = look->follow;
  procfs_each_child(pid, see, look);
  uint64_t start = trace_process_start(pid);
  if (start == 0 || start == TRACE_PROCESS_ENDED) return;
  char program[PATH_MAX];
  const char *obstacle = procfs_obstacle(pid, program);
  struct follow_seen now = {.pid = pid, .start = start};
  for (size_t i = 0; i < follow->seen_count; i++)
    if (follow->seen[i].pid == pid && follow->seen[i].start == start) now = follow->seen[i];
  enum procfs_answer mapped = procfs_has_mapped(pid, follow->library);
  now.unmapped = mapped == PROCFS_NO ? now.unmapped + 1 : 0;
  /* Root's set-user-ID program raises nothing; one that was recorded may have hidden itself since. */
  int seat = seat_of(follow, pid);
  struct recorded *process = seat < TRACE_SEATS ? follow->seats[seat] : NULL;
  if (mapped == PROCFS_YES || (mapped == PROCFS_UNKNOWN && process != NULL)) obstacle = NULL;
  if (obstacle == NULL && now.unmapped >= LOOKS)
    obstacle = "it runs without the library that records";
  if (obstacle == NULL && process == NULL) look->may_come++; /* also when it sits down just now */
  if (obstacle != NULL && !now.noted && program[0] != 0) {
    note(follow, pid, program, obstacle);
    now.noted = true;
    /* What it recorded before it executed that program is all. */
    if (process != NULL && !process->is_first) end_of_living(follow, process);
  }
  if (look->count == look->room) {
    look->room = look->room == 0 ? 64 : look->room * 2;
    struct follow_seen *larger = reallocarray(look->seen, look->room, sizeof *larger);
    if (larger == NULL) return;
    look->seen = larger;
  }
  look->seen[look->count++] = now;
}

/* Returns how many may be recorded yet. */
static unsigned look_for_others(struct follow *follow) {
  struct look look = {.follow = follow};
  procfs_each_child(getpid(), see, &look);
  free(follow->seen);
  follow->seen = look.seen;
  follow->seen_count = look.count;
  return look.may_come;
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

static bool has_children(void) {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void end_early(struct follow *follow) {
  atomic_store(&follow->common->ended, 1);
  for (int i = 0; i < TRACE_SEATS; i++) {
    struct recorded *process = follow->seats[i];
    if (process == NULL) continue;
    if (process->ended) take(follow, process, false);
    else end_of_living(follow, process);
  }
}

static void say_that_others_live(unsigned others) {
  complain("the program has ended, %u process%s that it started %s recorded on; Ctrl-C ends that",
           others, others == 1 ? "" : "es", others == 1 ? "is" : "are");
}

/* Ends are seen by looking, but for those of the recorder's own children. */
void follow_processes(struct follow *follow) {
  static const struct timespec most = {.tv_nsec = 20000000};
  enum { OTHERS_SHARE = 20 }; /* of the time, the part in which it looks for others */
  enum { QUIET_LOOKS = 3 };   /* the system's list of children may lack some while others end */
  double looked = 0, gathered = now_in_seconds(), others_at = 0, ended_at = 0;
  unsigned may_come = 0, quiet = 0;
  bool said = false, more;
  while (trace_signals.end_asked == 0) {
    uint32_t seen = atomic_load(&follow->common->wake);
    double now = now_in_seconds();
    begin_new(follow);
    reap(follow);
    bool look = now - looked >= 0.02 || atomic_load(&follow->common->wanting) != 0;
    if (look) looked = now;
    unsigned open = take_all(follow, look, &more);
    bool program_ended = trace_signals.child == 0;
    if (program_ended && open == 0 && !has_children()) break;
    if (now >= others_at) {
      may_come = look_for_others(follow);
      double took = now_in_seconds() - now;
      others_at = now + (took * OTHERS_SHARE > 0.1 ? took * OTHERS_SHARE : 0.1);
      quiet = program_ended && open == 0 && may_come == 0 ? quiet + 1 : 0;
      if (quiet == QUIET_LOOKS) break;
    }
    if (program_ended && ended_at == 0) ended_at = now;
    if (program_ended && !said && now - ended_at >= 1 && open + may_come != 0) {
      say_that_others_live(open + may_come);
      said = true;
    }
    if (now - gathered >= 1) {
      take_gathered(follow);
      gathered = now;
    }
    if (!more) trace_memory_wait(follow->common, seen, &most);
  }
  end_early(follow);
}

void follow_say(const struct follow *follow) {
  uint32_t recorded = 0, started = atomic_load(&follow->common->started);
  uint32_t refused = atomic_load(&follow->common->refused);
  for (const struct recorded *process = follow->first; process != NULL; process = process->next) {
    recorded += !process->is_first;
    if (process->file.file < 0) continue; /* said when it was refused */
    recorded_say(process, true);
    recorded_say_what_is_missing(process, true);
  }
  if (follow->notes != NULL && fflush(follow->notes) == 0)
    for (size_t at = 0; at < follow->notes_size; at += strlen(follow->notes_text + at) + 1)
      complain("note: %s", follow->notes_text + at);
  if (refused != 0)
    complain("note: %u process%s not recorded: more than %d would have been at once", refused,
             refused == 1 ? " was" : "es were", TRACE_SEATS);
  uint32_t others = started > recorded + refused ? started - recorded - refused : 0;
  if (others != 0)
    complain(
        "note: %u more process%s started: they allocated nothing by themselves, or run without the "
        "library that records",
        others, others == 1 ? " was" : "es were");
}
