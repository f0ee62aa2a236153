/* places.h - a profile with names: of a process, or of a file that was saved. What the formats show.
 *
 * A place is a stack and what was allocated there, a frame one of its calls, an object a file that was mapped.
 */
#ifndef HAKMEM_PLACES_H
#define HAKMEM_PLACES_H

#include <obstack.h>

#include "profile.h"

struct object {
  uint64_t start, end, offset;  /* of the code in memory, and in the file */
  const char *path, *build_id;  /* "": not known */
  bool functions, files, lines; /* has them for some frame */
  bool inlined;                 /* has such calls */
  bool unread;                  /* it was deleted or replaced, and cannot be read */
  uint64_t base;                /* of such a one: where its first byte lies */
};

struct frame {
  uint64_t address;                      /* in the call, not behind it */
  const struct object *object;           /* NULL: none */
  const char *function, *linkage, *file; /* NULL: not known */
  int64_t line;                          /* 0: not known */
  const char *source;                    /* of the function; NULL: not known */
  bool made; /* at run time: of an interpreter or a compiler in the process */
  bool
      inlined; /* into the next one of the stack, which is behind it in places->frames, at the same address */
};

/* In the order that Go's heap profiles have, which others expect. */
enum place_value { ALLOCATED_BLOCKS, ALLOCATED_BYTES, LIVE_BLOCKS, LIVE_BYTES, PLACE_VALUES };

struct place {
  double values[PLACE_VALUES];
  double before[PLACE_VALUES]; /* of places_compare */
  struct site_samples samples; /* zero where it was read from a file */
  unsigned depth;
  const struct frame **frames; /* innermost first */
  const char *text;            /* all of its frames, as the table has them; of places_merge */
};

struct places {
  struct object *objects;
  struct frame *frames;
  struct place *places;
  size_t object_count, frame_count, count;
  int64_t rate, time_ns; /* since 1970 */
  uint64_t age_ms;       /* of the first sample; 0 where it was read from a file */
  uint64_t growth_ms;    /* of the time in which it grew; 0: it is no growth */
  const char **comments; /* who it is, and what the samples cover */
  size_t comment_count;
  const char **notes; /* why functions of a file have no names, for people */
  size_t note_count;
  struct obstack memory; /* what all of these lie in */
};

/** Names all places of a profile while its process is there. NULL: out of memory, or it has ended. */
struct places *places_make(const struct profile *profile, const struct remote *remote);
/** An empty one, to be filled. */
struct places *places_new(void);
void places_comment(struct places *places, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void places_free(struct places *places);
/** A sentence on why functions have no names. */
void places_note(struct places *places, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Notes which language's functions are not in the stacks, as its interpreter told nobody of them (places_notes.c). */
void places_note_languages(struct places *places);

/** Makes one of places that read alike, such as two calls in one line. */
void places_merge(struct places *places);
/** Notes what `before` has at places that read alike, and adds those that are there alone; both have been merged, and `before`
 * has to stay. False: out of memory. */
bool places_compare(struct places *places, const struct places *before);

/** "function (file.c:12)", "function (library.so)", "library.so+0x12", or the address; behind the second last the build-id, where the
 * file is not to be found by its name. With `short_name` the function alone.
 * Nothing in it that a terminal obeys. Returns `text`. */
char *frame_text(const struct frame *frame, bool short_name, char *text, size_t room);

#endif
