/* where_text.c - what hakmem where prints for people. */
#include <string.h>

#include "calls.h"
#include "cli.h"
#include "explain.h"
#include "stats.h"
#include "where.h"

typedef unsigned long long number;

static const char *const states[] = {
    [BLOCK_LIVE] = "live",
    [BLOCK_IN_SLAB] = "free",
    [BLOCK_IN_HOLE] = "free",
    [BLOCK_IN_BIN] = "free",
    [BLOCK_UNSENT] = "free",
    [BLOCK_SENT] = "free",
    [BLOCK_FREE] = "free",
    [BLOCK_NEVER] = "none so far: it was never allocated",
    [BLOCK_NONE] = "live or free: that is not known",
};

/* Where a free block is. */
static void print_place(const struct block *block, FILE *out) {
  char thread[40];
  const char *of = block->heap != NULL ? stats_thread(block->heap, thread) : "a thread";
  switch (block->state) {
  case BLOCK_IN_SLAB:
    fputs("  in the list of its slab\n", out);
    break;
  case BLOCK_IN_HOLE:
    fputs("  its page was given back to the system\n", out);
    break;
  case BLOCK_IN_BIN:
    fprintf(out, "  in the bin of %s, number %u of %u: the first was freed last\n", of,
            block->place, block->places);
    break;
  case BLOCK_UNSENT:
    fprintf(out, "  freed by %s, which has not sent it to its owner\n", of);
    break;
  case BLOCK_SENT:
    fprintf(out, "  freed by another thread, and sent to %s\n", of);
    break;
  default:
    break;
  }
}

static void print_calls(const struct site *site, struct symbols *symbols, FILE *out) {
  char calls[SENTENCE];
  fprintf(out, "%s\n", calls_text(site, symbols, true, calls, sizeof calls));
}

static void print_sample(const struct where_sample *sample, const char *who,
                         struct symbols *symbols, FILE *out) {
  char age[32];
  if (!sample->found) return;
  if (sample->freed)
    fprintf(out, "  %s was a sample, of %llu bytes, freed %s ago; allocated by ", who,
            (number)sample->size, stats_age(sample->age_ms, age));
  else
    fprintf(out, "  %s is a sample, of %llu bytes, %s old; allocated by ", who,
            (number)sample->size, stats_age(sample->age_ms, age));
  print_calls(sample->site, symbols, out);
}

/* Who allocates blocks of its size, where nothing is known of the block itself. */
static void print_holders(const struct where *where, const struct where_reader *reader,
                          struct symbols *symbols, FILE *out) {
  struct holders holders = {0};
  if (where->sample.found || reader->profile == NULL ||
      !explain_holders(&holders, &(struct holders_of){.size_class = where->size_class},
                       reader->profile) ||
      holders.samples == 0)
    return;
  fprintf(out, "  live blocks of this size were allocated by (an estimate, %llu sample%s)\n",
          (number)holders.samples, stats_plural(holders.samples));
  for (unsigned i = 0; i < holders.count; i++) {
    fprintf(out, "    %3.0f%%  ", 100 * holders.all[i].share);
    print_calls(holders.all[i].site, symbols, out);
  }
}

static void print_neighbour(const char *side, uint64_t address, const struct block *block,
                            FILE *out) {
  if (block->state == BLOCK_NONE) return;
  fprintf(out, "  %s it 0x%llx is %s\n", side, (number)address, states[block->state]);
}

static void print_slab(const struct where *where, const struct where_reader *reader,
                       struct symbols *symbols, FILE *out) {
  char thread[40];
  if (where->in_slack || where->size == 0) {
    fprintf(out, "behind the last block of a slab of blocks of %u bytes, 0x%llx\n", where->size,
            (number)where->slab);
    return;
  }
  fprintf(out, "%llu bytes into a block of %u bytes at 0x%llx, which is ",
          (number)(where->address - where->start), where->size, (number)where->start);
  fprintf(out, "%s\n", states[where->block.state]);
  print_place(&where->block, out);
  fprintf(out, "  class %u, block %u of %u in the slab at 0x%llx (%llu KiB)", where->size_class,
          where->number + 1, where->count, (number)where->slab, (number)where->slab_bytes / 1024);
  if (where->owner != NULL) fprintf(out, ", owner: %s", stats_thread(where->owner, thread));
  fputc('\n', out);
  print_neighbour("before", where->start - where->size, &where->before, out);
  print_neighbour("behind", where->start + where->size, &where->behind, out);
  if (where->broken != 0)
    fprintf(out,
            "  the list of free blocks is broken at 0x%llx: the program has written to a block "
            "that it had freed, and what lies behind it in the list may be called live\n",
            (number)where->broken);
  print_sample(&where->sample, "it", symbols, out);
  print_sample(&where->sample_before, "the one before", symbols, out);
  print_sample(&where->sample_behind, "the one behind", symbols, out);
  print_holders(where, reader, symbols, out);
}

static void print_event(const struct where_event *event, const char *what, struct symbols *symbols,
                        FILE *out) {
  struct site site = {.depth = event->depth, .addresses = event->addresses};
  if (event->thread == 0) return;
  fprintf(out, "  %s by thread %d: ", what, event->thread);
  print_calls(&site, symbols, out);
}

/* Also beside it, where a guard lies. */
static void print_guarded(const struct where *where, struct symbols *symbols, FILE *out) {
  const char *what = where->live ? "live" : "freed";
  if (where->bytes == 0) fputs("among guarded samples, beside none of them\n", out);
  else if (where->address < where->start)
    fprintf(out, "%llu bytes before a guarded sample of %llu bytes at 0x%llx, which is %s\n",
            (number)(where->start - where->address), (number)where->bytes, (number)where->start,
            what);
  else
    fprintf(out, "%llu bytes into a guarded sample of %llu bytes at 0x%llx%s, which is %s\n",
            (number)(where->address - where->start), (number)where->bytes, (number)where->start,
            where->address - where->start >= where->bytes ? ", behind its end" : "", what);
  print_event(&where->allocated, "allocated", symbols, out);
  print_event(&where->freed, "freed", symbols, out);
}

static void print_mapping(const struct where *where, const struct where_reader *reader,
                          struct symbols *symbols, FILE *out) {
  struct symbol symbol = symbols_find(symbols, where->address);
  char text[SENTENCE];
  const char *name = base_name(where->name);
  if (where->stack_of != 0) fprintf(out, "in the stack of thread %d", where->stack_of);
  else if (name[0] == 0) fputs("in a mapping of the program without a name", out);
  else if (name == where->name) fprintf(out, "in %s", name);
  else
    fprintf(out, "in %s+0x%llx", name,
            (number)where->address - where->mapping.start + where->mapping.offset);
  if (symbol.function != NULL) fprintf(out, ", %s", symbol_texts(&symbol, text, sizeof text));
  fprintf(out, "\n  mapped from 0x%llx to 0x%llx, %s%s\n", (number)where->mapping.start,
          (number)where->mapping.end, where->mapping.rights,
          reader->remote->core != NULL && !where->kept ? "; the core does not have this memory"
                                                       : "");
}

static void print_span(const struct where *where, const char *what, FILE *out) {
  fprintf(out, "%llu bytes into %s of %llu bytes at 0x%llx%s\n",
          (number)(where->address - where->start), what, (number)where->bytes, (number)where->start,
          where->in_slack ? ", behind what the program may use of it" : "");
}

void where_text(const struct where *where, const struct where_reader *reader,
                struct symbols *symbols, FILE *out) {
  fprintf(out, "0x%llx: ", (number)where->address);
  switch (where->kind) {
  case WHERE_NOTHING:
    fprintf(out, "nothing is mapped there%s\n",
            where->address < reader->page ? ": a null pointer, or a field by one" : "");
    break;
  case WHERE_MAPPING:
    print_mapping(where, reader, symbols, out);
    break;
  case WHERE_SLAB:
    print_slab(where, reader, symbols, out);
    break;
  case WHERE_LARGE:
    print_span(where, "a live large block", out);
    print_sample(&where->sample, "it", symbols, out);
    break;
  case WHERE_HUGE:
    print_span(where, "a live huge block", out);
    print_sample(&where->sample, "it", symbols, out);
    break;
  case WHERE_CACHED:
    print_span(where, "a freed large block that is kept for the next,", out);
    print_sample(&where->sample, "it", symbols, out);
    break;
  case WHERE_FREE:
    fputs("free: hakmem's, and in no block just now\n", out);
    break;
  case WHERE_POOL:
    print_span(where, "free memory that is kept for the next blocks,", out);
    break;
  case WHERE_GUARDED:
    print_guarded(where, symbols, out);
    break;
  case WHERE_METADATA:
    fputs("hakmem's own: what it knows of memory\n", out);
    break;
  }
}
