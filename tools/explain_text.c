/* explain_text.c - what hakmem explain prints for people. */
#include <string.h>

#include "calls.h"
#include "explain.h"
#include "stats.h"

static void print_each(const struct holders *holders, struct symbols *symbols, FILE *out) {
  char calls[SENTENCE], young[32], old[32];
  for (unsigned i = 0; i < holders->count; i++) {
    const struct holder *holder = &holders->all[i];
    fprintf(out, "     %3.0f%%  %s\n           the youngest %s old, the oldest %s\n",
            100 * holder->share, calls_text(holder->site, symbols, true, calls, sizeof calls),
            stats_age(holder->youngest_ms, young), stats_age(holder->oldest_ms, old));
  }
}

static void print_holders(const struct holders *holders, struct symbols *symbols, FILE *out) {
  if (holders->samples == 0) {
    fprintf(out, "     no sample of a live block of this size: who allocated them is not known "
                 "(HAKMEM_PROF_RATE, hakmem prof --rate)\n");
    return;
  }
  fprintf(out, "     live blocks of this size were allocated by (an estimate, %llu %s):\n",
          (unsigned long long)holders->samples, holders->samples == 1 ? "sample" : "samples");
  print_each(holders, symbols, out);
}

/* Of what lives: it is no reason why anything does not come back. */
static void print_rounding(const struct explanation *explanation, struct symbols *symbols,
                           FILE *out) {
  const struct sampled *sampled = explanation->sampled;
  char bytes[16], live[16], error[16];
  if (explanation->waste_count == 0) return;
  fprintf(out,
          "\nrounding: %s of the %s in blocks were not asked for (in 19 of 20 cases within %s), "
          "most in\n",
          stats_bytes(sampled->rounding, bytes), stats_bytes(explanation->snapshot->live, live),
          stats_bytes(sampled->error, error));
  for (unsigned i = 0; i < explanation->waste_count; i++) {
    const struct waste *waste = &explanation->wastes[i];
    const struct rounding *rounding = &waste->rounding;
    fprintf(out, "  %10s  ", stats_bytes(rounding->bytes - rounding->slots, bytes));
    if (waste->size > 0) fprintf(out, "blocks of %u bytes, of which", waste->size);
    else fputs("blocks above 64 KiB, which have whole slices of 64 KiB, and of which", out);
    fprintf(out, " %.0f were asked for on average (%llu sample%s), by\n", rounding->asked,
            (unsigned long long)rounding->samples, stats_plural(rounding->samples));
    print_each(&waste->holders, symbols, out);
  }
}

/* Of a core (`ended`) nothing goes back any more. */
static void print_reasons(const struct explanation *explanation, bool ended,
                          struct symbols *symbols, FILE *out) {
  char bytes[16];
  for (unsigned i = 0; i < explanation->reason_count; i++) {
    const struct reason *reason = &explanation->reasons[i];
    fprintf(out, "\n%2u. %s: %s\n", i + 1, stats_bytes(reason->bytes, bytes), reason->sentence);
    if (!ended) fprintf(out, "     %s\n", reason->goes_when);
    if (reason->kind == REASON_PINNED) print_holders(&reason->holders, symbols, out);
  }
  if (explanation->more > 0 && explanation->reason_count > 0)
    fprintf(out, "\nand %s for smaller reasons\n", stats_bytes(explanation->more, bytes));
}

static void print_advice(const struct explanation *explanation, bool ended, FILE *out) {
  char bytes[16];
  bool trims = !ended && explanation->trim >= explain_worth(explanation->snapshot);
  if (explanation->advice_count == 0 && !trims) return;
  fprintf(out, ended ? "\nwhat would help the next time\n" : "\nwhat would help\n");
  if (trims)
    fprintf(out,
            "  %10s  a trim would return about this much: hakmem explain --trim, which the program "
            "does at its next malloc, or malloc_trim(0) in the program\n",
            stats_bytes(explanation->trim, bytes));
  for (unsigned i = 0; i < explanation->advice_count; i++)
    fprintf(out, "  %10s  %s: %s\n", stats_bytes(explanation->advice[i].bytes, bytes),
            explanation->advice[i].option, explanation->advice[i].sentence);
}

static void print_mappings(const struct snapshot *snapshot, FILE *out) {
  char bytes[16];
  fprintf(out, "\nnot ours: %s; the largest mappings\n", stats_bytes(snapshot->not_ours, bytes));
  for (size_t i = 0; i < snapshot->mapping_count; i++) {
    char count[24] = "";
    if (snapshot->mappings[i].count > 1)
      snprintf(count, sizeof count, " (%u)", snapshot->mappings[i].count);
    fprintf(out, "  %10s  %s%s\n", stats_bytes(snapshot->mappings[i].bytes, bytes),
            snapshot->mappings[i].name, count);
  }
}

static void print_trimmed(const struct trim *trim, uint64_t before, FILE *out) {
  char was[16], is[16], who[64];
  if (!trim->done) {
    if (trim->threads == 1) snprintf(who, sizeof who, "the one thread that has memory");
    else snprintf(who, sizeof who, "none of the %u threads that have memory", trim->threads);
    fprintf(out,
            "\ntrim: not yet: %s has%s called malloc for %u s; the first that does "
            "trims then\n",
            who, trim->threads == 1 ? " not" : "", trim->seconds);
    return;
  }
  fprintf(out, "\ntrim: done, resident %s -> %s; %u of %u thread%s emptied %s%s\n%s\n",
          stats_bytes((double)before, was), stats_bytes((double)trim->after, is), trim->emptied,
          trim->threads, stats_plural(trim->threads),
          trim->threads == 1 ? "its caches" : "their caches",
          trim->emptied < trim->threads ? " (the others do at their next malloc)" : "",
          trim->equation);
}

void explain_text(const struct explanation *explanation, const struct remote *remote,
                  struct symbols *symbols, FILE *out) {
  const struct snapshot *snapshot = explanation->snapshot;
  char equation[512], live[16], all[16], kept[16];
  double sum = explanation->more;
  for (unsigned i = 0; i < explanation->reason_count; i++) sum += explanation->reasons[i].bytes;
  stats_equation(snapshot, equation, sizeof equation);
  fprintf(out, "%s\n%s (%d), hakmem %s (%s)%s\n", equation, remote->program, remote->pid,
          remote->layout.release, remote->layout.variant, stats_moment(snapshot, remote));
  bool ended = remote->core != NULL;
  const char *are = ended ? "were" : "are", *holds = ended ? "held" : "holds";
  if (explanation->reason_count == 0)
    fprintf(
        out,
        "hakmem %s little: of %s that %s resident the program %s %s in blocks (hakmem prof: who "
        "allocated them), and no more than %s %s free or lost.\n",
        ended ? "kept" : "keeps", stats_bytes((double)snapshot->resident, all), are, holds,
        stats_bytes(snapshot->live, live), stats_bytes(sum, kept), are);
  else
    fprintf(out,
            "Of %s that %s resident the program %s %s in blocks; %s %s free or lost, the "
            "largest reason first:\n",
            stats_bytes((double)snapshot->resident, all), are, holds,
            stats_bytes(snapshot->live, live), stats_bytes(sum, kept), are);
  print_reasons(explanation, ended, symbols, out);
  print_rounding(explanation, symbols, out);
  print_advice(explanation, ended, out);
  print_mappings(snapshot, out);
  if (explanation->trimmed != NULL) print_trimmed(explanation->trimmed, snapshot->resident, out);
}
