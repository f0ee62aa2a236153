/* pprof.c - writes what pprof.h says. */
#define _GNU_SOURCE
#include "pprof.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "cli.h"
#include "profile.pb-c.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

bool pprof_is_built(void) { return true; }

/* --- texts: each has a number ----------------------------------------------------------------------------- */

struct text {
  const char *text;
  int64_t number;
};

struct writer {
  Pprof__Profile profile;
  struct obstack memory; /* of all messages */
  struct obstack texts;  /* the table, in the order of the numbers */
  int64_t text_count;
  void *tree;          /* of struct text */
  uint64_t *locations; /* the number of each frame's */
};

static int by_text(const void *a, const void *b) {
  return strcmp(((const struct text *)a)->text, ((const struct text *)b)->text);
}

static int64_t number_of(struct writer *writer, const char *text) {
  struct text *key = obstack_alloc(&writer->memory, sizeof *key);
  *key = (struct text){text != NULL ? text : "", writer->text_count};
  struct text **found = tsearch(key, &writer->tree, by_text);
  if (found == NULL) return 0;
  if (*found == key) {
    obstack_ptr_grow(&writer->texts, key->text);
    writer->text_count++;
  }
  return (*found)->number;
}

static void keep_tree(void *text) { (void)text; }

/* --- messages ------------------------------------------------------------------------------------------------ */

static void *array(struct writer *writer, size_t count, size_t size) {
  return obstack_alloc(&writer->memory, (int)(count * size + 1));
}

static Pprof__ValueType *value_type(struct writer *writer, const char *type, const char *unit) {
  Pprof__ValueType *value = array(writer, 1, sizeof *value);
  pprof__value_type__init(value);
  value->type = number_of(writer, type);
  value->unit = number_of(writer, unit);
  return value;
}

static void add_head(struct writer *writer, const struct places *places, enum place_value shown) {
  Pprof__Profile *profile = &writer->profile;
  static const char *const types[PLACE_VALUES] = {PPROF_TYPES};
  number_of(writer, "");
  profile->n_sample_type = PLACE_VALUES;
  profile->sample_type = array(writer, PLACE_VALUES, sizeof(void *));
  for (int i = 0; i < PLACE_VALUES; i++)
    profile->sample_type[i] =
        value_type(writer, types[i], i == ALLOCATED_BYTES || i == LIVE_BYTES ? "bytes" : "count");
  profile->default_sample_type = number_of(writer, types[shown]);
  profile->period_type = value_type(writer, "space", "bytes");
  profile->period = places->rate > 0 ? places->rate : 0;
  profile->time_nanos = places->time_ns;
  /* As Go's heap profiles: Parca takes one with a duration for the growth of that time. */
  profile->duration_nanos = (int64_t)places->growth_ms * 1000000;
  profile->n_comment = places->comment_count;
  profile->comment = array(writer, places->comment_count, sizeof *profile->comment);
  for (size_t i = 0; i < places->comment_count; i++)
    profile->comment[i] = number_of(writer, places->comments[i]);
}

static void add_mappings(struct writer *writer, const struct places *places) {
  Pprof__Profile *profile = &writer->profile;
  profile->n_mapping = places->object_count;
  profile->mapping = array(writer, places->object_count, sizeof(void *));
  for (size_t i = 0; i < places->object_count; i++) {
    const struct object *object = &places->objects[i];
    Pprof__Mapping *mapping = array(writer, 1, sizeof *mapping);
    pprof__mapping__init(mapping);
    mapping->id = i + 1;
    mapping->memory_start = object->start;
    mapping->memory_limit = object->end;
    mapping->file_offset = object->offset;
    mapping->filename = number_of(writer, object->path);
    mapping->build_id = number_of(writer, object->build_id);
    mapping->has_functions = object->functions;
    mapping->has_filenames = object->files;
    mapping->has_line_numbers = object->lines;
    mapping->has_inline_frames = object->inlined;
    profile->mapping[i] = mapping;
  }
}

/* A function's number is that of the first frame in it. */
struct function {
  const struct frame *frame;
  uint64_t number;
};

static int by_function(const void *a, const void *b) {
  const struct frame *left = ((const struct function *)a)->frame;
  const struct frame *right = ((const struct function *)b)->frame;
  int order = strcmp(left->linkage, right->linkage);
  if (order == 0)
    order = strcmp(left->file != NULL ? left->file : "", right->file != NULL ? right->file : "");
  return order;
}

static uint64_t function_of(struct writer *writer, const struct frame *frame, void **functions) {
  Pprof__Profile *profile = &writer->profile;
  struct function *key = obstack_alloc(&writer->memory, sizeof *key);
  *key = (struct function){frame, profile->n_function + 1};
  struct function **found = tsearch(key, functions, by_function);
  if (found == NULL) return 0;
  if (*found == key) {
    Pprof__Function *function = array(writer, 1, sizeof *function);
    pprof__function__init(function);
    function->id = key->number;
    function->name = number_of(writer, frame->function);
    function->system_name = number_of(writer, frame->linkage);
    function->filename = number_of(writer, frame->file);
    profile->function[profile->n_function++] = function;
  }
  return (*found)->number;
}

static Pprof__Line *line_of(struct writer *writer, const struct frame *frame, void **functions) {
  Pprof__Line *line = array(writer, 1, sizeof *line);
  pprof__line__init(line);
  line->function_id = function_of(writer, frame, functions);
  line->line = frame->line;
  return line;
}

/* One for each address, with a line for each function that the code there is of. */
static void add_locations(struct writer *writer, const struct places *places) {
  Pprof__Profile *profile = &writer->profile;
  void *functions = NULL;
  profile->function = array(writer, places->frame_count, sizeof(void *));
  profile->location = array(writer, places->frame_count, sizeof(void *));
  writer->locations = array(writer, places->frame_count, sizeof *writer->locations);
  for (size_t i = 0; i < places->frame_count; i++) {
    const struct frame *frame = &places->frames[i];
    size_t count = 1; /* calls at the address */
    while (frame[count - 1].inlined) count++;
    Pprof__Location *location = array(writer, 1, sizeof *location);
    pprof__location__init(location);
    location->id = profile->n_location + 1;
    location->address = frame->address;
    if (frame->object != NULL)
      location->mapping_id = (uint64_t)(frame->object - places->objects) + 1;
    location->line = array(writer, count, sizeof(void *));
    for (size_t at = 0; at < count; at++) {
      writer->locations[i + at] = location->id;
      if (frame[at].function != NULL)
        location->line[location->n_line++] = line_of(writer, &frame[at], &functions);
    }
    profile->location[profile->n_location++] = location;
    i += count - 1;
  }
  tdestroy(functions, keep_tree);
}

static void add_samples(struct writer *writer, const struct places *places) {
  Pprof__Profile *profile = &writer->profile;
  profile->n_sample = places->count;
  profile->sample = array(writer, places->count, sizeof(void *));
  for (size_t i = 0; i < places->count; i++) {
    const struct place *place = &places->places[i];
    Pprof__Sample *sample = array(writer, 1, sizeof *sample);
    pprof__sample__init(sample);
    sample->location_id = array(writer, place->depth, sizeof *sample->location_id);
    for (unsigned at = 0; at < place->depth; at++)
      if (at == 0 || !place->frames[at - 1]->inlined)
        sample->location_id[sample->n_location_id++] =
            writer->locations[place->frames[at] - places->frames];
    sample->n_value = PLACE_VALUES;
    sample->value = array(writer, PLACE_VALUES, sizeof *sample->value);
    for (int k = 0; k < PLACE_VALUES; k++) sample->value[k] = llround(place->values[k]);
    profile->sample[i] = sample;
  }
}

/* --- all of it ------------------------------------------------------------------------------------------------ */

static bool write_packed(const Pprof__Profile *profile, int fd) {
  enum { MOST = 1 << 30 };
  size_t bytes = pprof__profile__get_packed_size(profile);
  uint8_t *packed = bytes < MOST ? malloc(bytes + 1) : NULL;
  int copy = dup(fd);
  gzFile file = copy >= 0 ? gzdopen(copy, "wb") : NULL;
  bool ok = packed != NULL && file != NULL;
  if (ok) {
    pprof__profile__pack(profile, packed);
    errno = 0;
    ok = gzwrite(file, packed, (unsigned)bytes) == (int)bytes;
  }
  int error = errno;
  if (file == NULL && copy >= 0) close(copy);
  if (file != NULL && gzclose(file) != Z_OK && ok) {
    ok = false;
    error = errno;
  }
  free(packed);
  if (!ok) complain("cannot write the profile: %s", strerror(error != 0 ? error : ENOMEM));
  return ok;
}

bool pprof_write_places(const struct places *places, enum place_value shown, int fd) {
  struct writer writer = {.profile = PPROF__PROFILE__INIT};
  obstack_init(&writer.memory);
  obstack_init(&writer.texts);
  add_head(&writer, places, shown);
  add_mappings(&writer, places);
  add_locations(&writer, places);
  add_samples(&writer, places);
  writer.profile.n_string_table = (size_t)writer.text_count;
  writer.profile.string_table = obstack_finish(&writer.texts);
  bool ok = write_packed(&writer.profile, fd);
  tdestroy(writer.tree, keep_tree);
  obstack_free(&writer.texts, NULL);
  obstack_free(&writer.memory, NULL);
  return ok;
}

bool pprof_write(const struct profile *profile, const struct remote *remote, enum place_value shown,
                 int fd) {
  struct places *places = places_make(profile, remote);
  if (places == NULL) {
    complain("process %d (%s): what is mapped there cannot be read", remote->pid, remote->program);
    return false;
  }
  bool ok = pprof_write_places(places, shown, fd);
  places_free(places);
  return ok;
}
