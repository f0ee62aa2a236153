/* explore.c - which thread goes on at each step, and which of several outcomes its operation has.
 *
 * A run is a path in a tree of choices. The choices of the last run are kept; the next run repeats them up to the last one that
 * has an alternative left, and takes that. Threads whose next steps are independent need not be tried in both orders: sleep sets
 * (Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", 1996) leave out every run that differs from
 * another one only so. What they leave out they begin, and half of all steps are of such runs. So another thread is tried at a
 * choice only after a run in which one of its later steps and the one chosen there depend on each other, with nothing that orders them
 * (Flanagan and Godefroid, "Dynamic Partial-Order Reduction for Model Checking Software", 2005).
 * Both would leave out too much where preemptions are bounded, and are not used there; nor is the second with three threads, nor where
 * time or signals wake a thread, or one yields: what it may do next then depends on all others.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explorer.h"

enum { NODES = 4096, STEPS = 3000 };

/* A choice with alternatives. */
static struct node {
  bool of_threads;
  uint8_t chosen;
  uint8_t count;           /* of outcomes */
  uint8_t enabled, done;   /* of threads: bits; done: those explored before */
  uint8_t sleep;           /* threads whose next step need not be tried here */
  uint8_t wanted;          /* threads to try here, as far as is known */
  uint8_t last, preempted; /* thread that ran before, preemptions so far */
  uint16_t at;             /* steps before it, in trace[] */
} nodes[NODES];
static unsigned node_count, at_node;

/* The steps of a run of two threads. */
static struct traced {
  uint8_t thread;
  uint16_t
      after; /* so many of the run's steps: of these, the other's come before it in every order */
  int node;  /* where its thread was chosen; -1: the other could not go on */
  struct request request;
} trace[STEPS];
static unsigned trace_count;
static unsigned trace_kept;           /* of the run before, the same in this one */
static int last_of[SCHEDULE_THREADS]; /* index of a thread's last step; -1: none */
static int chosen_node;
static bool every_order; /* all threads are tried at each choice */

static struct step {
  uint8_t thread;
  int order;
  const char *operation;
  const struct schedule_site *site;
  char text[80];
} steps[STEPS];
static unsigned step_count;

static const struct schedule_case *now;
static struct mutant the_mutant;
static unsigned mutant_number = 1;
static const char *replayed; /* what is left of the choices to repeat; NULL: none */
static struct outcome outcome;
static sigjmp_buf failed_run;
struct schedule_site *explore_sites;

/* --- failures -------------------------------------------------------------------------------------- */

/* Also in the middle of a step, with the explorer's stack or a thread's: the run is left where it is. */
void schedule_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(outcome.why, sizeof outcome.why, format, arguments);
  va_end(arguments);
  outcome.failed = true;
  threads_leave();
  siglongjmp(failed_run, 1);
}

static void on_crash(int number) {
  int thread = running;
  threads_leave();
  schedule_fail("crash of thread %d: %s", thread, strsignal(number));
}

static void catch_crashes(void) {
  static char stack[64 * 1024];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  sigaltstack(&alternate, NULL);
  for (unsigned i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
    sigaction(crashes[i], &action, NULL);
}

/* --- steps ----------------------------------------------------------------------------------------- */

unsigned explore_step(void) { return step_count; }

void explore_note(unsigned thread, const char *operation, int order,
                  const struct schedule_site *site, const char *format, ...) {
  if (step_count == STEPS) schedule_fail("the run has %d steps: it may never end", STEPS);
  struct step *step = &steps[step_count++];
  step->thread = (uint8_t)thread;
  step->order = order;
  step->operation = operation;
  step->site = site;
  step->text[0] = '\0';
  if (replayed == NULL) return; /* text is for who reads it: the run is repeated for that */
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(step->text, sizeof step->text, format, arguments);
  va_end(arguments);
}

static const char *name_of_order(int order) {
  switch (order) {
  case memory_order_relaxed:
    return "";
  case memory_order_acquire:
    return " acquire";
  case memory_order_release:
    return " release";
  case memory_order_acq_rel:
    return " acq_rel";
  default:
    return " seq_cst";
  }
}

void explore_print(void) {
  enum { MOST = 120 };
  for (unsigned i = step_count > MOST ? step_count - MOST : 0; i < step_count; i++) {
    const struct step *step = &steps[i];
    const char *file = strstr(step->site->file, "src/");
    printf("%5u  thread %u  %s:%d %s: %s%s %s %s\n", i + 1, step->thread,
           file != NULL ? file : step->site->file, step->site->line, step->site->function,
           step->operation, name_of_order(step->order), step->site->object, step->text);
  }
}

enum schedule_fault explore_fault(struct schedule_site *site, const char *operation, int order) {
  if (site->of_mutant == mutant_number) return (enum schedule_fault)site->fault;
  if (site->operation == NULL) {
    site->next = explore_sites;
    explore_sites = site;
  }
  site->operation = operation;
  site->order = order;
  site->of_mutant = mutant_number;
  bool here = the_mutant.function != NULL &&
              (the_mutant.line != 0
                   ? site->line == the_mutant.line && strcmp(site->file, the_mutant.function) == 0
                   : strcmp(site->function, the_mutant.function) == 0) &&
              strcmp(operation, the_mutant.operation) == 0;
  if (here) outcome.was_broken = true;
  site->fault = here ? the_mutant.fault : FAULT_NONE;
  return (enum schedule_fault)site->fault;
}

/* --- choices --------------------------------------------------------------------------------------- */

static struct node *next_node(bool *is_new) {
  if (at_node == NODES) schedule_fail("the run has %d choices: it may never end", NODES);
  *is_new = at_node == node_count;
  if (*is_new) {
    nodes[node_count++] = (struct node){0};
  }
  return &nodes[at_node++];
}

static void not_deterministic(void) {
  schedule_fail("the same choices led to another run: the case does not start everything anew");
}

unsigned explore_choose(unsigned count) {
  bool is_new;
  if (count == 1) return 0;
  struct node *node = next_node(&is_new);
  if (is_new) {
    node->count = (uint8_t)count;
    node->at = (uint16_t)(trace_count - 1); /* an outcome of the step that is done now */
    if (replayed != NULL && *replayed != '\0') node->chosen = (uint8_t)(*replayed++ - 'a');
  }
  if (node->of_threads || node->count != count || node->chosen >= count) not_deterministic();
  return node->chosen;
}

static unsigned lowest(unsigned threads_left) { return (unsigned)__builtin_ctz(threads_left); }

/* Threads that may be tried at the node and were not yet. The one that ran before goes first. */
static unsigned candidates(const struct node *node) {
  unsigned left = node->enabled & node->wanted & ~node->done & ~node->sleep;
  if (now->preemptions > 0 && node->preempted >= now->preemptions &&
      (node->enabled >> node->last & 1) != 0)
    left &= 1U << node->last;
  return left;
}

static unsigned first_of(const struct node *node, unsigned left) {
  return (left >> node->last & 1) != 0 ? node->last : lowest(left);
}

/* SCHEDULE_THREADS: none has to be tried. */
static unsigned choose_thread(unsigned enabled, unsigned *sleep, unsigned last,
                              unsigned *preempted) {
  chosen_node = -1;
  if ((enabled & (enabled - 1)) == 0) {
    unsigned thread = lowest(enabled);
    return (*sleep >> thread & 1) != 0 ? SCHEDULE_THREADS : thread;
  }
  bool is_new;
  struct node *node = next_node(&is_new);
  if (is_new) {
    *node = (struct node){.of_threads = true,
                          .enabled = (uint8_t)enabled,
                          .sleep = (uint8_t)*sleep,
                          .wanted = (uint8_t)enabled,
                          .last = (uint8_t)last,
                          .preempted = (uint8_t)*preempted,
                          .at = (uint16_t)trace_count};
    unsigned left = candidates(node);
    if (left == 0) return SCHEDULE_THREADS;
    node->chosen = (uint8_t)first_of(node, left);
    if (replayed != NULL && *replayed != '\0') node->chosen = (uint8_t)(*replayed++ - '0');
    if (!every_order) node->wanted = (uint8_t)(1U << node->chosen);
  }
  chosen_node = (int)(node - nodes);
  if (!node->of_threads || node->enabled != enabled || (enabled >> node->chosen & 1) == 0)
    not_deterministic();
  *sleep |= node->done;
  if (node->chosen != last && (enabled >> last & 1) != 0) ++*preempted;
  return node->chosen;
}

/* False: everything was tried. */
static bool next_choices(void) {
  for (; node_count > 0; node_count--) {
    struct node *node = &nodes[node_count - 1];
    if (!node->of_threads) {
      if (node->chosen + 1 < node->count) {
        node->chosen++;
        return true;
      }
      continue;
    }
    node->done |= (uint8_t)(1U << node->chosen);
    unsigned left = candidates(node);
    if (left != 0) {
      node->chosen = (uint8_t)first_of(node, left);
      return true;
    }
  }
  return false;
}

static char *choices(void) {
  char *text = malloc(at_node + 1), *end = text;
  if (text == NULL) abort();
  for (unsigned i = 0; i < at_node && i < node_count; i++)
    *end++ = (char)((nodes[i].of_threads ? '0' : 'a') + nodes[i].chosen);
  *end = '\0';
  return text;
}

/* --- which orders matter ------------------------------------------------------------------------------ */

/* Before the thread does its step. The other thread's last step that this one depends on could have come after it, unless that is ordered
 * already: then both threads are to be tried where it was chosen. */
static void trace_step(unsigned thread) {
  if (every_order) return;
  if (trace_count == STEPS) schedule_fail("the run has %d steps: it may never end", STEPS);
  const unsigned index = trace_count++;
  struct traced *step = &trace[index];
  if (index >= trace_kept) {
    *step = (struct traced){.thread = (uint8_t)thread,
                            .node = chosen_node,
                            .after = last_of[thread] >= 0 ? trace[last_of[thread]].after : 0,
                            .request = threads[thread].request};
    for (unsigned i = index; i-- > step->after;) {
      const struct traced *before = &trace[i];
      if (before->thread == thread || memory_is_independent(&before->request, &step->request))
        continue;
      if (before->node >= 0) nodes[before->node].wanted = nodes[before->node].enabled;
      step->after = (uint16_t)(i + 1);
    }
  }
  last_of[thread] = (int)index;
}

static void try_every_order(void) {
  every_order = true;
  for (unsigned i = 0; i < node_count; i++) nodes[i].wanted = nodes[i].enabled;
}

/* --- runs ------------------------------------------------------------------------------------------ */

static unsigned enabled_threads(bool with_yielded) {
  unsigned enabled = 0;
  for (unsigned i = 0; i < thread_count; i++) {
    const struct thread *thread = &threads[i];
    if (thread->ended || (thread->yielded && !with_yielded)) continue;
    bool may_wake = (thread->request.timed && thread->timeouts > 0) || thread->signals > 0;
    if (!thread->sleeps || may_wake) enabled |= 1U << i;
  }
  return enabled;
}

static unsigned timed_sleepers(void) {
  unsigned sleepers = 0;
  for (unsigned i = 0; i < thread_count; i++)
    if (threads[i].sleeps && threads[i].request.timed) sleepers |= 1U << i;
  return sleepers;
}

static bool all_have_ended(void) {
  for (unsigned i = 0; i < thread_count; i++)
    if (!threads[i].ended) return false;
  return true;
}

static unsigned independent_of(const struct request *step, unsigned sleep, unsigned thread) {
  unsigned still = 0;
  for (unsigned i = 0; i < thread_count; i++)
    if ((sleep >> i & 1) != 0 && i != thread && memory_is_independent(&threads[i].request, step))
      still |= 1U << i;
  return still;
}

/* False: the rest of the run would be one that was tried. */
static bool run_steps(void) {
  unsigned sleep = 0, last = 0, preempted = 0;
  for (unsigned i = 0; i < thread_count; i++) thread_go_on(i);
  while (!all_have_ended()) {
    bool alone = false;
    unsigned enabled = enabled_threads(false);
    if (enabled == 0 && !every_order) try_every_order();
    if (enabled == 0) { /* nothing happens but that time passes */
      enabled = timed_sleepers();
      alone = enabled != 0;
    }
    if (enabled == 0) enabled = enabled_threads(true);
    if (enabled == 0) schedule_fail("deadlock: who is left sleeps, and nobody wakes it");
    unsigned thread = choose_thread(enabled, &sleep, last, &preempted);
    if (thread == SCHEDULE_THREADS) return false;
    sleep = now->preemptions > 0 ? 0 : independent_of(&threads[thread].request, sleep, thread);
    for (unsigned i = 0; i < thread_count; i++)
      if (i != thread) threads[i].yielded = false;
    bool slept = threads[thread].sleeps;
    trace_step(thread);
    if (threads[thread].request.what == DO_YIELD && !every_order) try_every_order();
    memory_do(thread, alone);
    if (slept || !threads[thread].sleeps) thread_go_on(thread);
    last = thread;
  }
  return true;
}

static bool run_once(void) {
  memory_reset();
  races_reset();
  threads_start(now);
  step_count = at_node = trace_count = 0;
  trace_kept = node_count > 0 ? nodes[node_count - 1].at : 0;
  for (unsigned i = 0; i < SCHEDULE_THREADS; i++) last_of[i] = -1;
  if (sigsetjmp(failed_run, 0) != 0) return true;
  now->start();
  if (!run_steps()) return false;
  now->end();
  return true;
}

struct outcome explore(const struct schedule_case *what, const struct mutant *mutant,
                       const char *replay) {
  static bool prepared;
  if (!prepared) {
    catch_crashes();
    threads_prepare();
  }
  prepared = true;
  now = what;
  the_mutant = mutant != NULL ? *mutant : (struct mutant){0};
  mutant_number++;
  replayed = replay;
  node_count = 0;
  every_order =
      what->preemptions > 0 || what->timeouts > 0 || what->signals > 0 || what->body[2] != NULL;
  outcome = (struct outcome){0};
  do {
    if (run_once()) outcome.runs++;
    else outcome.cut++;
    if (step_count > outcome.longest) outcome.longest = step_count;
    if (replay != NULL) break;
  } while (!outcome.failed && next_choices());
  if (outcome.failed) outcome.replay = choices();
  return outcome;
}
