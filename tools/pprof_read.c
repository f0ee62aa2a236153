/* pprof_read.c - reads what pprof.h says. A file may hold anything: every number in it is checked before it is used. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "cli.h"
#include "pprof.h"
#include "profile.pb-c.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

/* --- the file -------------------------------------------------------------------------------------------------- */

struct bytes {
  uint8_t *bytes;
  size_t count;
};

/* gzip'd or not; false after a complaint. */
static bool read_file(const char *path, struct bytes *all) {
  enum { MOST = 1 << 30 };
  size_t room = 0;
  *all = (struct bytes){0};
  gzFile file = gzopen(path, "rbe");
  int got = -1, error = 0;
  const char *problem = file == NULL ? strerror(errno) : NULL;
  while (file != NULL && got != 0 && problem == NULL) {
    if (room - all->count < 65536) {
      room = 2 * room + 262144;
      uint8_t *more = room <= MOST ? realloc(all->bytes, room) : NULL;
      if (more == NULL) {
        problem = "too large";
        break;
      }
      all->bytes = more;
    }
    errno = 0;
    got = gzread(file, all->bytes + all->count, 65536);
    if (got > 0) all->count += (size_t)got;
    if (got < 0 && errno != 0) problem = strerror(errno);
    else if (got < 0) problem = "damaged, or no profile";
  }
  if (file != NULL && problem == NULL) {
    gzerror(file, &error);
    if (error == Z_BUF_ERROR) problem = "cut short";
    else if (all->count == 0) problem = "empty";
  }
  if (file != NULL) gzclose(file);
  if (problem != NULL) complain("%s: %s", path, problem);
  return problem == NULL;
}

/* --- identifiers: any numbers but 0 ------------------------------------------------------------------------------- */

struct entry {
  uint64_t identifier;
  size_t at; /* of the message */
};

struct index {
  struct entry *entries;
  size_t count;
};

static bool index_make(struct index *index, size_t room) {
  *index = (struct index){.entries = calloc(room + 1, sizeof *index->entries)};
  return index->entries != NULL;
}

static void index_add(struct index *index, uint64_t identifier) {
  index->entries[index->count] = (struct entry){identifier, index->count};
  index->count++;
}

static int by_identifier(const void *a, const void *b) {
  uint64_t left = ((const struct entry *)a)->identifier;
  uint64_t right = ((const struct entry *)b)->identifier;
  return left < right ? -1 : left > right;
}

static void index_sort(struct index *index) {
  qsort(index->entries, index->count, sizeof *index->entries, by_identifier);
}

/* NULL: there is none. */
static const struct entry *index_find(const struct index *index, uint64_t identifier) {
  struct entry key = {.identifier = identifier};
  return bsearch(&key, index->entries, index->count, sizeof key, by_identifier);
}

/* --- its messages ---------------------------------------------------------------------------------------------- */

struct reader {
  const Pprof__Profile *profile;
  struct places *places;
  struct index objects, functions, locations;
  size_t *first_frame;       /* of each location; behind the last one: the end */
  int columns[PLACE_VALUES]; /* which value of a sample; -1: it has none */
};

/* As it is in the file; "" for what is not there. */
static const char *look_up(const struct reader *reader, int64_t number) {
  const Pprof__Profile *profile = reader->profile;
  return number >= 0 && (uint64_t)number < profile->n_string_table ? profile->string_table[number]
                                                                   : "";
}

/* Stays when the file's messages are gone. */
static const char *text(const struct reader *reader, int64_t number) {
  const char *found = look_up(reader, number);
  return obstack_copy0(&reader->places->memory, found, (int)strlen(found));
}

static const char *text_if_any(const struct reader *reader, int64_t number) {
  return look_up(reader, number)[0] != 0 ? text(reader, number) : NULL;
}

static bool take_objects(struct reader *reader) {
  const Pprof__Profile *profile = reader->profile;
  struct places *places = reader->places;
  places->objects = calloc(profile->n_mapping + 1, sizeof *places->objects);
  if (places->objects == NULL || !index_make(&reader->objects, profile->n_mapping)) return false;
  for (size_t i = 0; i < profile->n_mapping; i++) {
    const Pprof__Mapping *mapping = profile->mapping[i];
    struct object *object = &places->objects[places->object_count++];
    object->start = mapping->memory_start;
    object->end = mapping->memory_limit;
    object->offset = mapping->file_offset;
    object->path = text(reader, mapping->filename);
    object->build_id = text(reader, mapping->build_id);
    object->functions = mapping->has_functions;
    object->files = mapping->has_filenames;
    object->lines = mapping->has_line_numbers;
    index_add(&reader->objects, mapping->id);
  }
  index_sort(&reader->objects);
  return true;
}

static void take_line(const struct reader *reader, const Pprof__Line *line, struct frame *frame) {
  const struct entry *entry = index_find(&reader->functions, line->function_id);
  frame->line = line->line;
  if (entry == NULL) return;
  const Pprof__Function *function = reader->profile->function[entry->at];
  frame->function = text_if_any(reader, function->name);
  frame->linkage = text_if_any(reader, function->system_name);
  frame->file = text_if_any(reader, function->filename);
}

/* A frame for each line of a location, and for a location without one. */
static bool take_locations(struct reader *reader) {
  const Pprof__Profile *profile = reader->profile;
  struct places *places = reader->places;
  size_t count = 0;
  for (size_t i = 0; i < profile->n_location; i++) count += profile->location[i]->n_line + 1;
  places->frames = calloc(count + 1, sizeof *places->frames);
  reader->first_frame = calloc(profile->n_location + 1, sizeof *reader->first_frame);
  if (places->frames == NULL || reader->first_frame == NULL ||
      !index_make(&reader->functions, profile->n_function) ||
      !index_make(&reader->locations, profile->n_location))
    return false;
  for (size_t i = 0; i < profile->n_function; i++)
    index_add(&reader->functions, profile->function[i]->id);
  index_sort(&reader->functions);
  for (size_t i = 0; i < profile->n_location; i++) {
    const Pprof__Location *location = profile->location[i];
    const struct entry *object = index_find(&reader->objects, location->mapping_id);
    reader->first_frame[i] = places->frame_count;
    for (size_t at = 0; at < location->n_line || at == 0; at++) {
      struct frame *frame = &places->frames[places->frame_count++];
      frame->address = location->address;
      frame->object = object != NULL ? &places->objects[object->at] : NULL;
      frame->inlined = at + 1 < location->n_line;
      if (at < location->n_line) take_line(reader, location->line[at], frame);
    }
    index_add(&reader->locations, location->id);
  }
  reader->first_frame[profile->n_location] = places->frame_count;
  index_sort(&reader->locations);
  return true;
}

static bool take_samples(struct reader *reader) {
  const Pprof__Profile *profile = reader->profile;
  struct places *places = reader->places;
  places->places = calloc(profile->n_sample + 1, sizeof *places->places);
  if (places->places == NULL) return false;
  for (size_t i = 0; i < profile->n_sample; i++) {
    const Pprof__Sample *sample = profile->sample[i];
    struct place *place = &places->places[places->count++];
    for (int k = 0; k < PLACE_VALUES; k++) {
      int column = reader->columns[k];
      if (column >= 0 && (size_t)column < sample->n_value)
        place->values[k] = (double)sample->value[column];
    }
    for (size_t at = 0; at < sample->n_location_id; at++) {
      const struct entry *entry = index_find(&reader->locations, sample->location_id[at]);
      size_t frame = entry != NULL ? reader->first_frame[entry->at] : 0;
      size_t end = entry != NULL ? reader->first_frame[entry->at + 1] : 0;
      for (; frame < end; frame++, place->depth++)
        obstack_ptr_grow(&places->memory, &places->frames[frame]);
    }
    place->frames = obstack_finish(&places->memory);
  }
  return true;
}

/* False: it is a profile of something else. */
static bool find_columns(struct reader *reader) {
  static const char *const names[PLACE_VALUES] = {PPROF_TYPES};
  for (int k = 0; k < PLACE_VALUES; k++) {
    reader->columns[k] = -1;
    for (size_t i = 0; i < reader->profile->n_sample_type; i++)
      if (strcmp(look_up(reader, reader->profile->sample_type[i]->type), names[k]) == 0)
        reader->columns[k] = (int)i;
  }
  return reader->columns[LIVE_BYTES] >= 0;
}

static bool take_all(struct reader *reader) {
  const Pprof__Profile *profile = reader->profile;
  struct places *places = reader->places;
  places->rate = profile->period;
  places->time_ns = profile->time_nanos;
  places->growth_ms = profile->duration_nanos > 0 ? (uint64_t)profile->duration_nanos / 1000000 : 0;
  for (size_t i = 0; i < profile->n_comment; i++)
    places_comment(places, "%s", look_up(reader, profile->comment[i]));
  bool ok = take_objects(reader) && take_locations(reader) && take_samples(reader);
  free(reader->objects.entries);
  free(reader->functions.entries);
  free(reader->locations.entries);
  free(reader->first_frame);
  return ok;
}

struct places *pprof_read(const char *path) {
  struct bytes all;
  struct reader reader = {0};
  Pprof__Profile *profile = NULL;
  if (read_file(path, &all)) {
    profile = pprof__profile__unpack(NULL, all.count, all.bytes);
    reader.profile = profile;
    if (profile == NULL) complain("%s: damaged, or no profile in pprof's format", path);
    else if (!find_columns(&reader))
      complain("%s: no profile of a heap: it has no values inuse_space", path);
    else if ((reader.places = places_new()) == NULL || !take_all(&reader)) {
      complain("%s: out of memory", path);
      places_free(reader.places);
      reader.places = NULL;
    }
  }
  if (profile != NULL) pprof__profile__free_unpacked(profile, NULL);
  free(all.bytes);
  return reader.places;
}
