/* run.c - the main of a program of cases: explores them, sees that its mutants fail, repeats a run that is given.
 *
 * Usage: PROGRAM [--slow]                      all cases and mutants; with --slow those of the slow cases alone
 *        PROGRAM --case NAME [--replay STEPS] [--mutant N] [--steps]
 *        PROGRAM --must-fail NAME TEXT         a program with a fault compiled in: the case has to fail, and say TEXT
 *        PROGRAM --weaken                      which memory orders no case here needs: each is made relaxed in turn
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explorer.h"

static const char *program;
static const char *const fault_names[] = {"", "relaxed", "torn", "uncompared", "dropped"};

static struct mutant as_mutant(const struct schedule_mutant *mutant) {
  return (struct mutant){mutant->function, mutant->operation, 0, mutant->fault};
}

/* Repeats the run with its texts, and prints it. */
static void print_run(const struct schedule_case *one, const struct mutant *mutant,
                      const char *replay) {
  struct outcome again = explore(one, mutant, replay);
  explore_print();
  printf("   %s\n", again.failed ? again.why : "no failure");
  free(again.replay);
}

static bool check(const struct schedule_case *one) {
  struct outcome outcome = explore(one, NULL, NULL);
  printf("%-24s %8llu runs %8llu cut short, at most %3llu steps: %s\n", one->name,
         (unsigned long long)outcome.runs, (unsigned long long)outcome.cut,
         (unsigned long long)outcome.longest, outcome.failed ? "FAILED" : "ok");
  if (!outcome.failed) return true;
  print_run(one, NULL, outcome.replay);
  printf("   again: %s --case %s --replay '%s'\n", program, one->name, outcome.replay);
  free(outcome.replay);
  return false;
}

static const struct schedule_case *find(const struct schedule_case *cases, const char *name) {
  for (; cases->name != NULL; cases++)
    if (strcmp(cases->name, name) == 0) return cases;
  printf("there is no case %s\n", name);
  exit(1);
}

static bool check_mutant(const struct schedule_case *cases, const struct schedule_mutant *mutant) {
  struct mutant broken = as_mutant(mutant);
  struct outcome outcome = explore(find(cases, mutant->in_case), &broken, NULL);
  bool found = outcome.failed && strstr(outcome.why, mutant->expected) != NULL;
  printf("%-24s %8llu runs  mutant %s of %s %s: %s%s\n", mutant->in_case,
         (unsigned long long)outcome.runs, mutant->operation, mutant->function,
         fault_names[mutant->fault], found ? "found: " : "NOT FOUND: ",
         outcome.failed       ? outcome.why
         : outcome.was_broken ? "no run fails"
                              : "no such operation is come by");
  free(outcome.replay);
  return found;
}

static int run_all(const struct schedule_case *cases, const struct schedule_mutant *mutants,
                   bool slow) {
  unsigned failed = 0;
  for (const struct schedule_case *one = cases; one->name != NULL; one++)
    if (one->slow == slow && !check(one)) failed++;
  for (const struct schedule_mutant *mutant = mutants; mutant->in_case != NULL; mutant++)
    if (find(cases, mutant->in_case)->slow == slow && !check_mutant(cases, mutant)) failed++;
  if (failed > 0) printf("%u failed\n", failed);
  return failed > 0;
}

static int must_fail(const struct schedule_case *one, const char *expected) {
  struct outcome outcome = explore(one, NULL, NULL);
  bool found = outcome.failed && strstr(outcome.why, expected) != NULL;
  printf("%-24s %8llu runs: %s%s\n", one->name, (unsigned long long)outcome.runs,
         found ? "found: " : "NOT FOUND: ", outcome.failed ? outcome.why : "no run fails");
  if (outcome.failed) print_run(one, NULL, outcome.replay);
  free(outcome.replay);
  return !found;
}

/* Which orders are there is known after all cases have run once. */
static int weaken(const struct schedule_case *cases) {
  for (const struct schedule_case *one = cases; one->name != NULL; one++)
    if (!one->slow) free(explore(one, NULL, NULL).replay);
  const struct schedule_site *sites = explore_sites;
  for (const struct schedule_site *site = sites; site != NULL; site = site->next) {
    if (site->order == memory_order_relaxed) continue;
    struct mutant weaker = {site->file, site->operation, site->line, FAULT_RELAXED};
    struct outcome outcome = {0};
    for (const struct schedule_case *one = cases; one->name != NULL && !outcome.failed; one++)
      if (!one->slow) outcome = explore(one, &weaker, NULL);
    printf("%s:%d %s: %s %s: %s\n", site->file, site->line, site->function, site->operation,
           site->object, outcome.failed ? outcome.why : "NOT NEEDED by any case");
    free(outcome.replay);
  }
  return 0;
}

int schedule_main(int count, char **arguments, const struct schedule_case *cases,
                  const struct schedule_mutant *mutants) {
  const char *name = NULL, *replay = NULL;
  const struct schedule_mutant *chosen = NULL;
  bool slow = false, steps = false;
  program = arguments[0];
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 1; i < count; i++) {
    const char *next = i + 1 < count ? arguments[i + 1] : "";
    if (strcmp(arguments[i], "--slow") == 0) slow = true;
    else if (strcmp(arguments[i], "--steps") == 0) steps = true;
    else if (strcmp(arguments[i], "--weaken") == 0) return weaken(cases);
    else if (strcmp(arguments[i], "--must-fail") == 0)
      return must_fail(find(cases, next), i + 2 < count ? arguments[i + 2] : "");
    else if (strcmp(arguments[i], "--case") == 0) name = next, i++;
    else if (strcmp(arguments[i], "--replay") == 0) replay = next, i++;
    else if (strcmp(arguments[i], "--mutant") == 0) chosen = &mutants[atoi(next)], i++;
    else {
      printf("what is %s? The head of run.c says what there is.\n", arguments[i]);
      return 1;
    }
  }
  if (name == NULL) return run_all(cases, mutants, slow);
  const struct schedule_case *one = find(cases, name);
  struct mutant broken = chosen != NULL ? as_mutant(chosen) : (struct mutant){0};
  const struct mutant *mutant = chosen != NULL ? &broken : NULL;
  if (replay == NULL) {
    struct outcome outcome = explore(one, mutant, NULL);
    printf("%s: %llu runs, %llu cut short: %s\n", name, (unsigned long long)outcome.runs,
           (unsigned long long)outcome.cut, outcome.failed ? outcome.replay : "ok");
    replay = outcome.failed ? outcome.replay : steps ? "" : NULL;
  }
  if (replay != NULL) print_run(one, mutant, replay);
  return 0;
}
