/* where_json.c - hakmem where --format=json: an object for each address. */
#include "calls.h"
#include "explain.h"
#include "json_writer.h"
#include "where.h"

static const char *const kinds[] = {"nothing", "mapping", "block", "large",   "huge",
                                    "cached",  "free",    "pool",  "guarded", "metadata"};
static const char *const states[] = {"live", "slab", "hole",  "bin",    "unsent",
                                     "sent", "free", "never", "unknown"};

static void put_block(struct json *json, const char *name, uint64_t address,
                      const struct block *block) {
  if (block->state == BLOCK_NONE) return;
  json_open_group(json, name, '{');
  json_number(json, "address", address);
  json_boolean(json, "live", block->state == BLOCK_LIVE);
  json_text(json, "state", states[block->state]);
  if (block->heap != NULL && block->heap->thread != 0)
    json_number(json, "thread", (uint64_t)block->heap->thread);
  if (block->place != 0) json_number(json, "place", block->place);
  json_close_group(json, '}');
}

static void put_sample(struct json *json, const char *name, const struct where_sample *sample,
                       struct symbols *symbols) {
  char calls[SENTENCE];
  if (!sample->found) return;
  json_open_group(json, name, '{');
  json_number(json, "size", sample->size);
  json_boolean(json, "freed", sample->freed);
  json_number(json, "age_ms", sample->age_ms);
  json_text(json, "allocated_by", calls_text(sample->site, symbols, true, calls, sizeof calls));
  json_close_group(json, '}');
}

static void put_event(struct json *json, const char *name, const struct where_event *event,
                      struct symbols *symbols) {
  struct site site = {.depth = event->depth, .addresses = event->addresses};
  char calls[SENTENCE];
  if (event->thread == 0) return;
  json_open_group(json, name, '{');
  json_number(json, "thread", (uint64_t)event->thread);
  json_text(json, "calls", calls_text(&site, symbols, true, calls, sizeof calls));
  json_close_group(json, '}');
}

static void put_slab(struct json *json, const struct where *where, struct symbols *symbols) {
  json_open_group(json, "slab", '{');
  json_number(json, "start", where->slab);
  json_number(json, "bytes", where->slab_bytes);
  json_number(json, "class", where->size_class);
  json_number(json, "size", where->size);
  json_number(json, "blocks", where->count);
  if (where->owner != NULL && where->owner->thread != 0)
    json_number(json, "thread", (uint64_t)where->owner->thread);
  json_close_group(json, '}');
  put_block(json, "block", where->start, &where->block);
  put_block(json, "before", where->start - where->size, &where->before);
  put_block(json, "behind", where->start + where->size, &where->behind);
  if (where->broken != 0) json_number(json, "broken_list", where->broken);
  put_sample(json, "sample_before", &where->sample_before, symbols);
  put_sample(json, "sample_behind", &where->sample_behind, symbols);
}

static void put_mapping(struct json *json, const struct where *where, struct symbols *symbols) {
  const struct symbol innermost = symbols_find(symbols, where->address);
  const struct symbol *symbol = &innermost; /* the one that the linker knows */
  while (symbol->caller != NULL) symbol = symbol->caller;
  json_text(json, "name", where->name);
  json_text(json, "rights", where->mapping.rights);
  if (where->stack_of != 0) json_number(json, "stack_of", (uint64_t)where->stack_of);
  if (symbol->function != NULL) json_text(json, "symbol", symbol->function);
  json_boolean(json, "kept", where->kept);
}

void where_json(const struct where *where, const struct where_reader *reader,
                struct symbols *symbols, struct json *json) {
  (void)reader;
  json_open_group(json, NULL, '{');
  json_number(json, "address", where->address);
  json_text(json, "kind", kinds[where->kind]);
  if (where->bytes != 0) {
    json_number(json, "start", where->start);
    json_number(json, "bytes", where->bytes);
    json_number(json, "offset", where->address - where->start);
  }
  if (where->kind == WHERE_SLAB) put_slab(json, where, symbols);
  if (where->kind == WHERE_MAPPING) put_mapping(json, where, symbols);
  if (where->kind == WHERE_GUARDED) json_boolean(json, "live", where->live);
  put_sample(json, "sample", &where->sample, symbols);
  put_event(json, "allocated", &where->allocated, symbols);
  put_event(json, "freed", &where->freed, symbols);
  json_close_group(json, '}');
}
