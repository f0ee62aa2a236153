/* explain_json.c - hakmem explain --format json: one line. */
#include "calls.h"
#include "explain.h"
#include "json_writer.h"

static const char *const kinds[] = {"pinned", "loose", "huge",   "thread", "heap",
                                    "ended",  "empty", "unused", "slack",  "metadata"};

static const char *const helpers[] = {"runs", "off", "one_thread", "seccomp", "later"};

static void put_holders(struct json *json, const struct holders *holders, struct symbols *symbols) {
  char calls[SENTENCE];
  json_open_group(json, "holders", '[');
  for (unsigned i = 0; i < holders->count; i++) {
    const struct holder *holder = &holders->all[i];
    json_open_group(json, NULL, '{');
    json_text(json, "calls", calls_text(holder->site, symbols, true, calls, sizeof calls));
    json_bytes(json, "percent", 100 * holder->share);
    json_number(json, "samples", holder->samples);
    json_number(json, "youngest_ms", holder->youngest_ms);
    json_number(json, "oldest_ms", holder->oldest_ms);
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
}

/* Of a core (`ended`) nothing goes back any more. */
static void put_reason(struct json *json, const struct reason *reason, bool ended,
                       struct symbols *symbols) {
  json_open_group(json, NULL, '{');
  json_text(json, "kind", kinds[reason->kind]);
  json_bytes(json, "bytes", reason->bytes);
  json_text(json, "what", reason->sentence);
  if (!ended) json_text(json, "when", reason->goes_when);
  if (reason->kind == REASON_PINNED) {
    json_number(json, "size", reason->size);
    json_number(json, "pages", reason->pages);
    json_number(json, "blocks", reason->blocks);
    json_number(json, "samples", reason->holders.samples);
    put_holders(json, &reason->holders, symbols);
  }
  if (reason->kind == REASON_THREAD && reason->heap_thread != 0)
    json_number(json, "thread", (uint64_t)reason->heap_thread);
  if (reason->kind == REASON_HEAP && reason->heap_name[0] != 0)
    json_text(json, "heap", reason->heap_name);
  json_close_group(json, '}');
}

static void put_rounding(struct json *json, const struct explanation *explanation,
                         struct symbols *symbols) {
  const struct sampled *sampled = explanation->sampled;
  if (sampled == NULL) return;
  json_open_group(json, "rounding", '{');
  json_bytes(json, "bytes", sampled->rounding);
  json_bytes(json, "error", sampled->error);
  json_bytes(json, "asked", sampled->asked);
  json_number(json, "samples", sampled->samples);
  json_open_group(json, "sizes", '[');
  for (unsigned i = 0; i < explanation->waste_count; i++) {
    const struct waste *waste = &explanation->wastes[i];
    json_open_group(json, NULL, '{');
    if (waste->size > 0) json_number(json, "size", waste->size);
    json_bytes(json, "bytes", waste->rounding.bytes - waste->rounding.slots);
    json_bytes(json, "error", waste->rounding.error);
    json_bytes(json, "asked", waste->rounding.asked);
    json_number(json, "samples", waste->rounding.samples);
    put_holders(json, &waste->holders, symbols);
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
  json_close_group(json, '}');
}

static void put_trimmed(struct json *json, const struct trim *trim) {
  json_open_group(json, "trimmed", '{');
  json_boolean(json, "done", trim->done);
  json_number(json, "threads", trim->threads);
  json_number(json, "emptied", trim->emptied);
  if (trim->done) json_number(json, "resident", trim->after);
  json_close_group(json, '}');
}

void explain_json(const struct explanation *explanation, const struct remote *remote,
                  struct symbols *symbols, FILE *out) {
  const struct snapshot *snapshot = explanation->snapshot;
  struct json json = {.out = out};
  json_open_group(&json, NULL, '{');
  json_number(&json, "version", 1);
  json_number(&json, "pid", (uint64_t)remote->pid);
  json_text(&json, "program", remote->program);
  json_number(&json, "resident", snapshot->resident);
  json_bytes(&json, "live", snapshot->live);
  json_bytes(&json, "not_ours", snapshot->not_ours);
  json_boolean(&json, "partial", snapshot->partial);
  json_text(&json, "helper", helpers[explanation->helper]);
  json_open_group(&json, "reasons", '[');
  for (unsigned i = 0; i < explanation->reason_count; i++)
    put_reason(&json, &explanation->reasons[i], remote->core != NULL, symbols);
  json_close_group(&json, ']');
  json_bytes(&json, "smaller_reasons", explanation->more);
  put_rounding(&json, explanation, symbols);
  if (remote->core == NULL) json_bytes(&json, "trim", explanation->trim);
  json_open_group(&json, "advice", '[');
  for (unsigned i = 0; i < explanation->advice_count; i++) {
    json_open_group(&json, NULL, '{');
    json_text(&json, "option", explanation->advice[i].option);
    json_bytes(&json, "bytes", explanation->advice[i].bytes);
    json_text(&json, "what", explanation->advice[i].sentence);
    json_close_group(&json, '}');
  }
  json_close_group(&json, ']');
  if (explanation->trimmed != NULL) put_trimmed(&json, explanation->trimmed);
  json_open_group(&json, "mappings", '[');
  for (size_t i = 0; i < snapshot->mapping_count; i++) {
    json_open_group(&json, NULL, '{');
    json_text(&json, "name", snapshot->mappings[i].name);
    json_bytes(&json, "bytes", snapshot->mappings[i].bytes);
    json_close_group(&json, '}');
  }
  json_close_group(&json, ']');
  json_close_group(&json, '}');
  fputc('\n', out);
}
