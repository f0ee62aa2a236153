/* places.c - see places.h. */
#define _GNU_SOURCE
#include "places.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "core.h"
#include "symbols.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

struct places *places_new(void) {
  struct places *places = calloc(1, sizeof *places);
  if (places != NULL) obstack_init(&places->memory);
  return places;
}

void places_free(struct places *places) {
  if (places == NULL) return;
  obstack_free(&places->memory, NULL);
  free(places->objects);
  free(places->frames);
  free(places->places);
  free(places->comments);
  free(places->notes);
  free(places);
}

static const char *keep(struct places *places, const char *text) {
  return text != NULL ? obstack_copy0(&places->memory, text, (int)strlen(text)) : NULL;
}

static void add_text(const char ***texts, size_t *count, const char *text) {
  const char **more = reallocarray(*texts, *count + 1, sizeof *more);
  if (more == NULL) return;
  *texts = more;
  more[(*count)++] = text;
}

void places_comment(struct places *places, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  add_text(&places->comments, &places->comment_count, keep(places, text));
}

void places_note(struct places *places, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  places_comment(places, "%s", text);
  add_text(&places->notes, &places->note_count, keep(places, text));
}

/* --- what is mapped --------------------------------------------------------------------------------------- */

static void find_program(struct target target, char *program, size_t room) {
  char path[64];
  if (target.core != NULL) {
    snprintf(program, room, "%s", core_program_path(target.core));
    return;
  }
  snprintf(path, sizeof path, "/proc/%d/exe", target.pid);
  ssize_t length = readlink(path, program, room - 1);
  program[length > 0 ? length : 0] = 0;
}

/* Only what code lies in; the program itself first, as readers of pprof's format expect. */
static bool add_objects(struct places *places, struct target target) {
  char program[PATH_MAX], name[PATH_MAX], *line = NULL;
  size_t room = 0, objects = 0;
  bool has_program = false;
  find_program(target, program, sizeof program);
  FILE *maps = target_maps(target);
  if (maps == NULL) return false;
  while (getline(&line, &room, maps) >= 0) {
    struct mapped mapping;
    if (!mapped_parse(line, &mapping) || mapping.path[0] == 0 ||
        strchr(mapping.rights, 'x') == NULL)
      continue;
    if (places->object_count == objects) {
      objects = 2 * objects + 16;
      struct object *more = reallocarray(places->objects, objects, sizeof *more);
      if (more == NULL) break;
      places->objects = more;
    }
    struct object *object = &places->objects[places->object_count++];
    *object = (struct object){.start = mapping.start,
                              .end = mapping.end,
                              .offset = mapping.offset,
                              .path = keep(places, mapped_name(mapping.path, name, sizeof name)),
                              .build_id = ""};
    if (strcmp(mapping.path, program) == 0 && !has_program) {
      struct object first = places->objects[0];
      places->objects[0] = *object;
      *object = first;
      has_program = true;
    }
  }
  bool ok = feof(maps) != 0;
  free(line);
  fclose(maps);
  return ok;
}

/* --- frames --------------------------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
  const struct frame *left = a, *right = b;
  return left->address < right->address ? -1 : left->address > right->address;
}

/* The innermost one at the address. */
static struct frame *find_frame(const struct places *places, uint64_t address) {
  struct frame key = {.address = address};
  struct frame *frame = bsearch(&key, places->frames, places->frame_count, sizeof key, by_address);
  while (frame != NULL && frame > places->frames && frame[-1].address == address) frame--;
  return frame;
}

static struct object *object_at(const struct places *places, uint64_t address) {
  for (size_t i = 0; i < places->object_count; i++)
    if (address >= places->objects[i].start && address < places->objects[i].end)
      return &places->objects[i];
  return NULL;
}

static void name_frame(struct places *places, struct frame *frame, const struct symbol *symbol) {
  frame->function = keep(places, symbol->function);
  frame->linkage =
      symbol->linkage == symbol->function ? frame->function : keep(places, symbol->linkage);
  frame->file = keep(places, symbol->file);
  frame->line = symbol->line;
  frame->made = symbol->made;
  frame->source = symbol->source == symbol->file ? frame->file : keep(places, symbol->source);
  frame->inlined = symbol->caller != NULL;
}

static void identify_object(struct places *places, struct object *object, uint64_t address,
                            struct symbols *symbols) {
  char build_id[BUILD_ID_ROOM];
  object->build_id = keep(places, symbols_build_id(symbols, address, build_id));
  const struct unread *unread = symbols_unread_at(symbols, address);
  if (unread != NULL) {
    object->unread = true;
    object->base = unread->base;
    object->build_id = keep(places, unread->build_id);
  }
}

/* One for each function that the code at the address is of, the innermost first. False: out of memory. */
static bool add_frames_at(struct places *places, size_t *room, uint64_t address,
                          struct symbols *symbols) {
  struct object *object = object_at(places, address);
  const struct symbol innermost = symbols_find(symbols, address);
  for (const struct symbol *symbol = &innermost; symbol != NULL; symbol = symbol->caller) {
    if (places->frame_count == *room) {
      *room = 2 * *room + 16;
      struct frame *more = reallocarray(places->frames, *room, sizeof *more);
      if (more == NULL) return false;
      places->frames = more;
    }
    struct frame *frame = &places->frames[places->frame_count++];
    *frame = (struct frame){.address = address, .object = object};
    name_frame(places, frame, symbol);
    if (object == NULL) continue;
    object->functions |= frame->function != NULL;
    object->files |= frame->file != NULL;
    object->lines |= frame->line > 0;
    object->inlined |= frame->inlined;
  }
  if (object != NULL && object->build_id[0] == 0) identify_object(places, object, address, symbols);
  return true;
}

static void add_notes(struct places *places, const struct symbols *symbols) {
  const struct unread *unread = symbols_unread(symbols);
  for (; unread != NULL; unread = unread->next) places_note(places, "%s", unread->why);
}

static int by_value(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return left < right ? -1 : left > right;
}

/* Each address once: names are looked up in files. */
static bool add_frames(struct places *places, const struct profile *profile, struct target target) {
  size_t count = 0, room = 0;
  bool ok = true;
  for (size_t i = 0; i < profile->site_count; i++) count += profile->sites[i].depth;
  uint64_t *addresses = calloc(count + 1, sizeof *addresses);
  if (addresses == NULL) return false;
  count = 0;
  for (size_t i = 0; i < profile->site_count; i++)
    for (unsigned at = 0; at < profile->sites[i].depth; at++)
      addresses[count++] = profile->sites[i].addresses[at] - 1;
  qsort(addresses, count, sizeof *addresses, by_value);
  struct symbols *symbols = symbols_open(target);
  for (size_t i = 0; i < count && ok; i++)
    if (i == 0 || addresses[i] != addresses[i - 1])
      ok = add_frames_at(places, &room, addresses[i], symbols);
  free(addresses);
  add_notes(places, symbols);
  places_note_languages(places);
  symbols_close(symbols);
  return ok;
}

/* --- of a process ----------------------------------------------------------------------------------------------- */

static bool add_places(struct places *places, const struct profile *profile) {
  places->places = calloc(profile->site_count + 1, sizeof *places->places);
  if (places->places == NULL) return false;
  for (size_t i = 0; i < profile->site_count; i++) {
    const struct site *site = &profile->sites[i];
    struct place *place = &places->places[places->count++];
    place->values[ALLOCATED_BLOCKS] = site->allocated_blocks;
    place->values[ALLOCATED_BYTES] = site->allocated_bytes;
    place->values[LIVE_BLOCKS] = site->live_blocks;
    place->values[LIVE_BYTES] = site->live_bytes;
    place->samples = site->samples;
    for (unsigned at = 0; at < site->depth; at++) {
      const struct frame *frame = find_frame(places, site->addresses[at] - 1);
      for (; frame != NULL; frame = frame->inlined ? frame + 1 : NULL, place->depth++)
        obstack_ptr_grow(&places->memory, frame);
    }
    place->frames = obstack_finish(&places->memory);
  }
  return true;
}

struct places *places_make(const struct profile *profile, const struct remote *remote) {
  struct timespec now;
  struct places *places = places_new();
  if (places == NULL) return NULL;
  clock_gettime(CLOCK_REALTIME, &now);
  if (remote->core != NULL) now = (struct timespec){.tv_sec = remote->core->written};
  places->time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  places->rate = profile->rate;
  places->age_ms = profile->age_ms;
  places->growth_ms = profile->growth_ms;
  places_comment(places, "%s (%d), hakmem %s (%s)", remote->program, remote->pid,
                 remote->layout.release, remote->layout.variant);
  places_comment(places, "%llu samples alive of %llu taken; %llu were dropped",
                 (unsigned long long)profile->live_samples, (unsigned long long)profile->samples,
                 (unsigned long long)profile->dropped);
  if (!add_objects(places, remote_target(remote)) ||
      !add_frames(places, profile, remote_target(remote)) || !add_places(places, profile)) {
    places_free(places);
    return NULL;
  }
  return places;
}

/* --- as text ---------------------------------------------------------------------------------------------------- */

char *frame_text(const struct frame *frame, bool short_name, char *text, size_t room) {
  const struct object *object = frame->object;
  unsigned long long address = frame->address;
  bool alone = short_name || (frame->file == NULL && frame->made);
  if (frame->function != NULL && alone) snprintf(text, room, "%s", frame->function);
  else if (frame->function != NULL && frame->file != NULL && frame->line == 0)
    snprintf(text, room, "%s (%s)", frame->function, base_name(frame->file));
  else if (frame->function != NULL && frame->file != NULL)
    snprintf(text, room, "%s (%s:%lld)", frame->function, base_name(frame->file),
             (long long)frame->line);
  else if (frame->function != NULL)
    snprintf(text, room, "%s (%s)", frame->function,
             object != NULL ? base_name(object->path) : "?");
  else if (object != NULL) {
    int length = snprintf(text, room, "%s+0x%llx", base_name(object->path),
                          object->unread ? address - object->base
                                         : address - object->start + object->offset);
    if (object->unread && object->build_id[0] != 0 && (size_t)length < room)
      snprintf(text + length, room - (size_t)length, " (build-id %s)", object->build_id);
  } else snprintf(text, room, "0x%llx", address);
  make_printable(text, room);
  return text;
}

/* --- what reads alike ------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
  return strcmp(((const struct place *)a)->text, ((const struct place *)b)->text);
}

static void add_place(struct place *to, const struct place *from) {
  struct site_samples *samples = &to->samples;
  const struct site_samples *others = &from->samples;
  for (int i = 0; i < PLACE_VALUES; i++) to->values[i] += from->values[i];
  for (int i = 0; i < QUARTERS; i++) samples->born[i] += others->born[i];
  if (others->live > 0 && (samples->live == 0 || others->youngest_ms < samples->youngest_ms))
    samples->youngest_ms = others->youngest_ms;
  if (others->oldest_ms > samples->oldest_ms) samples->oldest_ms = others->oldest_ms;
  if (others->heaviest > samples->heaviest) samples->heaviest = others->heaviest;
  samples->allocated += others->allocated;
  samples->live += others->live;
}

void places_merge(struct places *places) {
  enum { NAME_ROOM = 1024 };
  char name[NAME_ROOM];
  size_t used = 0;
  for (size_t i = 0; i < places->count; i++) {
    struct place *place = &places->places[i];
    for (unsigned at = 0; at < place->depth; at++) {
      frame_text(place->frames[at], false, name, sizeof name);
      obstack_grow(&places->memory, name, (int)strlen(name));
      obstack_1grow(&places->memory, '\n');
    }
    obstack_grow0(&places->memory, "", 0);
    place->text = obstack_finish(&places->memory);
  }
  if (places->count > 0) qsort(places->places, places->count, sizeof *places->places, by_text);
  for (size_t i = 0; i < places->count; i++) {
    if (used > 0 && by_text(&places->places[used - 1], &places->places[i]) == 0)
      add_place(&places->places[used - 1], &places->places[i]);
    else places->places[used++] = places->places[i];
  }
  places->count = used;
}

static struct place *alike(const struct places *places, const struct place *place) {
  if (places->count == 0) return NULL; /* bsearch may not be given it */
  return bsearch(place, places->places, places->count, sizeof *place, by_text);
}

bool places_compare(struct places *places, const struct places *before) {
  struct place *more =
      reallocarray(places->places, places->count + before->count + 1, sizeof *more);
  if (more == NULL) return false;
  places->places = more;
  size_t gone = 0;
  for (size_t i = 0; i < before->count; i++) {
    struct place *place = alike(places, &before->places[i]);
    if (place == NULL) {
      place = &more[places->count + gone++];
      *place = before->places[i];
      memset(place->values, 0, sizeof place->values);
    }
    memcpy(place->before, before->places[i].values, sizeof place->before);
  }
  places->count += gone;
  return true;
}
