/* prof_group.c - see prof_group.h: which group a place or a live sample belongs to, and the sums of each.
 *
 * A place belongs to the program's own frame: the innermost one that was made at run time, of a program in Python for example; else
 * the innermost one that lies neither in the C or C++ library nor in a function of namespace std or of Rust's library, which a
 * template or the compiler puts into the program. Threads, sizes and ages are known of live samples, not of places.
 */
#define _GNU_SOURCE
#include "prof_group.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "cli.h"
#include "stats.h"

enum { NAME_ROOM = 1024 };

struct key {
  const char *name, *one, *many;
};

static const struct key keys[] = {
    [BY_STACKS] = {"stacks", "stack", "stacks"},
    [BY_FUNCTION] = {"function", "function", "functions"},
    [BY_FILE] = {"file", "file", "files"},
    [BY_LIBRARY] = {"library", "library", "libraries"},
    [BY_THREAD] = {"thread", "thread", "threads"},
    [BY_SIZE] = {"size", "range of sizes", "ranges of sizes"},
    [BY_AGE] = {"age", "range of ages", "ranges of ages"},
};

bool prof_by(const char *name, enum prof_by *by) {
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (strcmp(name, keys[i].name) != 0) continue;
    *by = (enum prof_by)i;
    return true;
  }
  complain("--by=%s: unknown; accepted: stacks|function|file|library|thread|size|age", name);
  return false;
}

bool prof_by_is_of_samples(enum prof_by by) {
  return by == BY_THREAD || by == BY_SIZE || by == BY_AGE;
}

const char *prof_by_name(enum prof_by by) { return keys[by].name; }

const char *prof_by_noun(enum prof_by by, size_t count) {
  return count == 1 ? keys[by].one : keys[by].many;
}

/* --- the program's own frame ---------------------------------------------------------------------------------- */

static bool is_of_system(const struct object *object) {
  static const char *const begins[] = {"libc.so",    "libc-2.",    "libc.musl-", "ld-",
                                       "libstdc++.", "libc++.",    "libc++abi.", "libgcc_s.",
                                       "libm.so",    "libpthread", "libhakmem"};
  if (object == NULL) return false;
  for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
    if (strncmp(base_name(object->path), begins[i], strlen(begins[i])) == 0) return true;
  return false;
}

/* Made at run time, and neither of Node itself nor of what Python brings in its program. */
static bool is_own_made(const struct frame *frame) {
  const char *file = frame->file != NULL ? frame->file : "";
  return frame->made && strncmp(file, "node:", strlen("node:")) != 0 &&
         strncmp(file, "<frozen ", strlen("<frozen ")) != 0;
}

/* NULL: nobody knows the caller. What was made at run time lies in no library. */
static const struct frame *own_frame(const struct place *place, enum prof_by by) {
  for (unsigned i = 0; i < place->depth && by != BY_LIBRARY; i++)
    if (is_own_made(place->frames[i])) return place->frames[i];
  for (unsigned i = 0; i < place->depth; i++) {
    const struct frame *frame = place->frames[i];
    if (!is_of_system(frame->object) && !is_of_std(frame->linkage, frame->source, frame->inlined))
      return frame;
  }
  return place->depth > 0 ? place->frames[0] : NULL;
}

static void name_function(const struct frame *frame, char *text, size_t room) {
  frame_text(frame, true, text, room);
  size_t length = strlen(text);
  const char *in = frame->object != NULL ? frame->object->path : frame->made ? frame->file : NULL;
  if (frame->function != NULL && in != NULL && length < room)
    snprintf(text + length, room - length, " (%s)", base_name(in));
}

/* The name of a place's group. */
static void name_place(const struct place *place, enum prof_by by, char *text, size_t room) {
  const struct frame *frame = own_frame(place, by);
  const char *path = frame != NULL && frame->object != NULL ? frame->object->path : NULL;
  if (frame == NULL) snprintf(text, room, "(nobody knows the caller)");
  else if (by == BY_FUNCTION) name_function(frame, text, room);
  else if (by == BY_FILE && frame->source != NULL) snprintf(text, room, "%s", frame->source);
  else if (path == NULL) snprintf(text, room, "(in no file)");
  else if (by == BY_FILE) snprintf(text, room, "(not known, in %s)", base_name(path));
  else snprintf(text, room, "%s", path);
  make_printable(text, room);
}

/* --- of a live sample ----------------------------------------------------------------------------------------- */

static void name_thread(uint64_t address, const struct snapshot *snapshot, char *text,
                        size_t room) {
  char thread[40];
  const struct heap_figures *heap = NULL;
  for (size_t i = 0; i < snapshot->heap_count && heap == NULL && address != 0; i++)
    if (snapshot->heaps[i].address == address) heap = &snapshot->heaps[i];
  if (heap == NULL) snprintf(text, room, "(not known)");
  else if (heap->parked || heap->thread != 0)
    snprintf(text, room, "%s", stats_thread(heap, thread));
  else snprintf(text, room, "(number not known, heap 0x%llx)", (unsigned long long)address);
}

/* Sizes by powers of two: more than half of `most`, and at most that. */
static void name_size(uint64_t size, struct group *group, char *text, size_t room) {
  char least[16], most[16];
  group->most = 16;
  while (group->most < size && group->most <= UINT64_MAX / 2) group->most *= 2;
  group->least = group->most > 16 ? group->most / 2 + 1 : 1;
  if (group->least == 1) snprintf(text, room, "up to 16 B");
  else
    snprintf(text, room, "above %s, up to %s", stats_bytes((double)(group->least - 1), least),
             stats_bytes((double)group->most, most));
}

static void name_age(uint64_t age_ms, struct group *group, char *text, size_t room) {
  static const struct {
    uint64_t ms;
    const char *text;
  } ends[] = {{1000, "below 1 s"},           {10000, "1 s to 10 s"},     {60000, "10 s to 1 min"},
              {600000, "1 min to 10 min"},   {3600000, "10 min to 1 h"}, {86400000, "1 h to 1 day"},
              {UINT64_MAX, "1 day and more"}};
  size_t i = 0;
  while (age_ms >= ends[i].ms && ends[i].ms != UINT64_MAX) i++;
  group->least = i > 0 ? ends[i - 1].ms : 0;
  group->most = ends[i].ms;
  snprintf(text, room, "%s", ends[i].text);
}

/* --- groups --------------------------------------------------------------------------------------------------- */

struct groups {
  void *tree; /* of struct group, by name; they lie in the report's list afterwards */
  size_t count;
};

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

/* The group of that name, made where there is none; NULL: out of memory. */
static struct group *find(struct groups *groups, const char *name, const struct group *limits) {
  struct group key = {.name = (char *)name};
  struct group **found = tfind(&key, &groups->tree, by_name);
  if (found != NULL) return *found;
  struct group *group = calloc(1, sizeof *group);
  if (group == NULL) return NULL;
  *group = (struct group){.name = strdup(name), .least = limits->least, .most = limits->most};
  if (group->name == NULL || tsearch(group, &groups->tree, by_name) == NULL) {
    free(group->name);
    free(group);
    return NULL;
  }
  groups->count++;
  return group;
}

static bool add_rows(const struct report *report, struct groups *groups) {
  char name[NAME_ROOM];
  for (size_t i = 0; i < report->count; i++) {
    const struct row *row = &report->rows[i];
    const struct site_samples *samples = &row->place->samples;
    name_place(row->place, report->order->by, name, sizeof name);
    struct group *group = find(groups, name, &(struct group){0});
    if (group == NULL) return false;
    group->bytes += row->bytes;
    group->blocks += row->blocks;
    group->samples += report->order->view == VIEW_ALLOCATED ? samples->allocated : samples->live;
  }
  return true;
}

static bool add_samples(const struct report *report, struct groups *groups,
                        const struct profile *profile, const struct snapshot *snapshot) {
  char name[NAME_ROOM];
  for (size_t i = 0; i < profile->live_count; i++) {
    const struct live_sample *sample = &profile->live[i];
    struct group limits = {0};
    if (report->order->by == BY_THREAD) name_thread(sample->heap, snapshot, name, sizeof name);
    else if (report->order->by == BY_SIZE) name_size(sample->size, &limits, name, sizeof name);
    else name_age(sample->age_ms, &limits, name, sizeof name);
    struct group *group = find(groups, name, &limits);
    if (group == NULL) return false;
    group->bytes += (double)sample->weight;
    group->blocks += (double)sample->weight / (double)sample->size;
    group->samples++;
  }
  return true;
}

static int by_bytes(const void *a, const void *b) {
  const struct group *left = a, *right = b;
  if (left->bytes != right->bytes) return left->bytes < right->bytes ? 1 : -1;
  return strcmp(left->name, right->name);
}

bool prof_group(struct report *report, const struct profile *profile,
                const struct snapshot *snapshot) {
  struct groups groups = {0};
  if (report->order->by == BY_STACKS) return true;
  bool ok = prof_by_is_of_samples(report->order->by)
                ? add_samples(report, &groups, profile, snapshot)
                : add_rows(report, &groups);
  report->groups = calloc(groups.count + 1, sizeof *report->groups);
  ok &= report->groups != NULL;
  while (groups.tree != NULL) {
    struct group *group = *(struct group **)groups.tree;
    tdelete(group, &groups.tree, by_name);
    if (ok) report->groups[report->group_count++] = *group;
    else free(group->name);
    free(group);
  }
  if (ok) qsort(report->groups, report->group_count, sizeof *report->groups, by_bytes);
  return ok;
}
