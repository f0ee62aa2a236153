/* profile.c - see profile.h. */
#define _GNU_SOURCE
#include "profile.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "core.h"

enum { WORDS_A_CHUNK = SAMPLE_STACK_CHUNK_BYTES / 8, HEAD_WORDS = sizeof(struct sample_stack) / 8 };

/* The clock of the library's samples. */
static uint64_t now_of_samples(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- where they begin --------------------------------------------------------------------------------- */

/* The sampler's head; NULL: why not is in `wrong`. Of version 0 it has taken no sample. */
static struct samples *read_head(const struct remote *remote, const char **wrong) {
  *wrong = "may not be read: try as its user, or as root";
  if (remote->shared) return NULL;
  *wrong = "this build of hakmem has no sampler (the variant fast): run it on another one";
  if (remote->samples == 0) return NULL;
  struct samples *head = calloc(1, sizeof *head);
  *wrong = "its samples cannot be read";
  if (head != NULL && remote_read(remote, remote->samples, head, sizeof *head)) {
    *wrong = "its samples are of another version than this tool";
    if (head->version == 0 || head->version == SAMPLES_VERSION) return head;
  }
  free(head);
  return NULL;
}

/* --- stacks ------------------------------------------------------------------------------------------ */

/* Until it is the same twice: so the figures of a stack are of one moment. Of a process that takes samples all the time the last of
 * them has to do, where each word is as it was then. */
static bool read_at_rest(const struct remote *remote, uint64_t address, uint64_t *words,
                         size_t bytes) {
  enum { TRIES = 8 };
  static uint64_t again[WORDS_A_CHUNK];
  if (!remote_read(remote, address, words, bytes)) return false;
  for (int i = 0; i < (remote->core != NULL ? 0 : TRIES); i++) {
    if (!remote_read(remote, address, again, bytes)) return false;
    if (memcmp(words, again, bytes) == 0) break;
    memcpy(words, again, bytes);
  }
  return true;
}

static bool read_words(struct profile *profile, const struct remote *remote,
                       const struct samples *head, uint32_t end) {
  if (end > SAMPLE_STACK_CHUNKS * WORDS_A_CHUNK) return false;
  uint32_t chunks = (end + WORDS_A_CHUNK - 1) / WORDS_A_CHUNK;
  profile->words = calloc((size_t)chunks * WORDS_A_CHUNK + 1, sizeof *profile->words);
  if (profile->words == NULL) return false;
  for (uint32_t i = 0; i < chunks; i++) {
    uint32_t left = end - i * WORDS_A_CHUNK;
    size_t bytes = (left < WORDS_A_CHUNK ? left : WORDS_A_CHUNK) * sizeof(uint64_t);
    if (!read_at_rest(remote, (uintptr_t)atomic_load(&head->stack_chunks[i]),
                      profile->words + (size_t)i * WORDS_A_CHUNK, bytes))
      return false;
  }
  return true;
}

/* What the stack has saved for the peak, or for a later one than ours, if there was one meanwhile; else it has still what it had. */
static struct site_peak peak_of(const struct sample_stack *stack, uint64_t number) {
  const struct sample_totals *then = &stack->at_peak, *all = &stack->allocated,
                             *freed = &stack->freed;
  if (atomic_load(&stack->saved_for) >= number)
    return (struct site_peak){(double)atomic_load(&then->bytes),
                              (double)atomic_load(&then->blocks) / SAMPLE_BLOCK,
                              atomic_load(&then->samples)};
  return (struct site_peak){(double)(atomic_load(&all->bytes) - atomic_load(&freed->bytes)),
                            (double)(atomic_load(&all->blocks) - atomic_load(&freed->blocks)) /
                                SAMPLE_BLOCK,
                            atomic_load(&all->samples) - atomic_load(&freed->samples)};
}

static void add_site(struct profile *profile, uint32_t place, uint64_t peak_number) {
  const struct sample_stack *stack = (const struct sample_stack *)(profile->words + place);
  struct site *site = &profile->sites[profile->site_count++];
  *site = (struct site){.place = place, .depth = stack->depth, .addresses = stack->addresses};
  site->samples.allocated = atomic_load(&stack->allocated.samples);
  site->allocated_bytes = (double)atomic_load(&stack->allocated.bytes);
  site->allocated_blocks = (double)atomic_load(&stack->allocated.blocks) / SAMPLE_BLOCK;
  site->peak = peak_of(stack, peak_number);
  profile->allocated_bytes += site->allocated_bytes;
}

static bool find_sites(struct profile *profile, uint32_t end, uint64_t peak_number) {
  size_t room = 0;
  for (uint32_t at = 1; at < end;) {
    const struct sample_stack *stack = (const struct sample_stack *)(profile->words + at);
    uint32_t left = WORDS_A_CHUNK - at % WORDS_A_CHUNK;
    if (left < HEAD_WORDS || stack->hash == 0) {
      at += left;
      continue;
    }
    if (stack->depth > SAMPLE_DEPTH_MOST || HEAD_WORDS + stack->depth > left) return false;
    if (profile->site_count == room) {
      struct site *more = reallocarray(profile->sites, room * 2 + 64, sizeof *more);
      if (more == NULL) return false;
      profile->sites = more;
      room = room * 2 + 64;
    }
    add_site(profile, at, peak_number);
    at += HEAD_WORDS + stack->depth;
  }
  return true;
}

/* --- live samples ------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
  const struct site *left = a, *right = b;
  return left->place < right->place ? -1 : left->place > right->place;
}

struct site *profile_site(const struct profile *profile, uint32_t place) {
  struct site key = {.place = place};
  /* They were added in this order. bsearch may not be given NULL. */
  if (profile->site_count == 0) return NULL;
  return bsearch(&key, profile->sites, profile->site_count, sizeof key, by_place);
}

static void keep_live(struct profile *profile, struct live_sample sample) {
  if (profile->live_count == profile->live_room) {
    size_t room = profile->live_room * 2 + 256;
    struct live_sample *more = reallocarray(profile->live, room, sizeof *more);
    if (more == NULL) return; /* the sums are right without it */
    profile->live = more;
    profile->live_room = room;
  }
  profile->live[profile->live_count++] = sample;
}

static void add_record(struct profile *profile, const struct sample_record *record, uint64_t now) {
  uint64_t size = atomic_load(&record->size), weight = atomic_load(&record->weight);
  if (atomic_load(&record->address) == 0 || size == 0) return;
  profile->live_samples++;
  profile->live_bytes += (double)weight;
  if (record->exposure > 0) profile->live_rate += (double)weight * (double)size / record->exposure;
  struct site *site = profile_site(profile, atomic_load(&record->stack));
  if (site == NULL) return;
  uint64_t since = atomic_load(&record->since_ms), age = now > since ? now - since : 0;
  struct site_samples *samples = &site->samples;
  samples->live++;
  site->live_bytes += (double)weight;
  site->live_blocks += (double)weight / (double)size;
  if (age > samples->oldest_ms) samples->oldest_ms = age;
  if (samples->live == 1 || age < samples->youngest_ms) samples->youngest_ms = age;
  if ((double)weight > samples->heaviest) samples->heaviest = (double)weight;
  unsigned quarter = (unsigned)(QUARTERS * age / (profile->age_ms + 1));
  samples->born[quarter < QUARTERS ? QUARTERS - 1 - quarter : 0] += (double)weight;
  keep_live(profile, (struct live_sample){.place = site->place,
                                          .size_class = atomic_load(&record->size_class),
                                          .weight = weight,
                                          .age_ms = age,
                                          .size = size,
                                          .address = atomic_load(&record->address),
                                          .heap = atomic_load(&record->heap)});
}

/* Even, and the same before and after all else was read: nobody wrote to it meanwhile. */
static bool is_whole(const struct sample_record *record, const struct sample_record *after) {
  uint32_t version = atomic_load(&record->version);
  return version % 2 == 0 && version == atomic_load(&after->version);
}

/* The few that were being written are read again; one that is never at rest is left out, as good as not there. */
static bool settle(const struct remote *remote, uint64_t address, struct sample_record *record,
                   const struct sample_record *after) {
  enum { TRIES = 8 };
  struct sample_record next = *after;
  for (int i = 0; i < TRIES && !is_whole(record, &next); i++) {
    *record = next;
    if (!remote_read(remote, address, &next, sizeof next)) return false;
  }
  if (!is_whole(record, &next)) atomic_store(&record->address, 0);
  return true;
}

/* A chunk of the process' memory, read twice. */
static bool read_chunk(const struct remote *remote, uint64_t address, struct sample_record *chunk,
                       uint32_t records) {
  static struct sample_record again[SAMPLE_RECORDS_A_CHUNK];
  if (!remote_read(remote, address, chunk, records * sizeof chunk[0]) ||
      !remote_read(remote, address, again, records * sizeof again[0]))
    return false;
  for (uint32_t i = 0; i < records; i++)
    if (!settle(remote, address + i * sizeof chunk[0], &chunk[i], &again[i])) return false;
  return true;
}

/* The place of a chunk of records, and how many it has. */
static uint32_t chunk_at(const struct samples *head, uint32_t first, uint64_t *address) {
  uint32_t left = atomic_load(&head->records) - first;
  *address = (uintptr_t)atomic_load(&head->record_chunks[first / SAMPLE_RECORDS_A_CHUNK]);
  return left < SAMPLE_RECORDS_A_CHUNK ? left : SAMPLE_RECORDS_A_CHUNK;
}

/* When a core was made its clock does not tell: ages count from the youngest sample on, be it alive or not. */
static uint64_t now_of_core(const struct remote *remote, const struct samples *head) {
  if (remote->core->is_box) return remote->core->box.clock_ms;
  static struct sample_record chunk[SAMPLE_RECORDS_A_CHUNK];
  uint32_t count = atomic_load(&head->records);
  uint64_t now = 0, address;
  for (uint32_t first = 0; first < count; first += SAMPLE_RECORDS_A_CHUNK) {
    uint32_t records = chunk_at(head, first, &address);
    if (!remote_read(remote, address, chunk, records * sizeof chunk[0])) break;
    for (uint32_t i = 0; i < records; i++)
      if (atomic_load(&chunk[i].since_ms) > now) now = atomic_load(&chunk[i].since_ms);
  }
  return now;
}

static bool read_records(struct profile *profile, const struct remote *remote,
                         const struct samples *head) {
  static struct sample_record chunk[SAMPLE_RECORDS_A_CHUNK];
  uint32_t count = atomic_load(&head->records);
  if (count > (uint32_t)SAMPLE_RECORD_CHUNKS * SAMPLE_RECORDS_A_CHUNK) return false;
  uint64_t now = remote->core != NULL ? now_of_core(remote, head) : now_of_samples();
  uint64_t since = atomic_load(&head->since_ms);
  profile->now_ms = now;
  profile->age_ms = now > since ? now - since : 0;
  uint64_t peak_at = atomic_load(&head->peak.since_ms);
  profile->peak_bytes = (double)atomic_load(&head->peak.bytes);
  profile->peak_samples = atomic_load(&head->peak.samples);
  profile->peak_ms = now > peak_at ? now - peak_at : 0;
  for (uint32_t first = 0; first < count; first += SAMPLE_RECORDS_A_CHUNK) {
    uint64_t address;
    uint32_t records = chunk_at(head, first, &address);
    if (!read_chunk(remote, address, chunk, records)) return false;
    for (uint32_t i = 0; i < records; i++) add_record(profile, &chunk[i], now);
  }
  if (profile->live_bytes > 0) profile->live_rate /= profile->live_bytes;
  return true;
}

bool profile_each_chunk(const struct remote *remote,
                        void (*each)(void *context, const struct sample_record *records,
                                     uint32_t count),
                        void *context) {
  static struct sample_record chunk[SAMPLE_RECORDS_A_CHUNK];
  const char *wrong;
  struct samples *head = read_head(remote, &wrong);
  bool ok = head != NULL &&
            atomic_load(&head->records) <= (uint32_t)SAMPLE_RECORD_CHUNKS * SAMPLE_RECORDS_A_CHUNK;
  uint32_t count = ok ? atomic_load(&head->records) : 0;
  for (uint32_t first = 0; first < count && ok; first += SAMPLE_RECORDS_A_CHUNK) {
    uint64_t address;
    uint32_t records = chunk_at(head, first, &address);
    ok = remote_read(remote, address, chunk, records * sizeof chunk[0]);
    if (ok) each(context, chunk, records);
  }
  free(head);
  return ok;
}

/* --- all of it ---------------------------------------------------------------------------------------- */

const char *profile_look(struct profile *profile, const struct remote *remote) {
  memset(profile, 0, sizeof *profile);
  profile->read_ms = now_ms();
  const char *wrong;
  struct samples *head = read_head(remote, &wrong);
  if (head == NULL) return wrong;
  uint32_t end = atomic_load(&head->stacks_end);
  profile->rate = atomic_load(&head->rate);
  int32_t option;
  if (profile->rate == 0 && remote_option(remote, "HAKMEM_PROF_RATE", &option))
    profile->rate = option > 0 ? option : -1;
  profile->lost = atomic_load(&head->lost) != 0;
  profile->samples = atomic_load(&head->samples);
  profile->dropped = atomic_load(&head->dropped);
  bool ok = head->version == 0 || profile->samples == 0 ||
            (read_words(profile, remote, head, end) &&
             find_sites(profile, end, atomic_load(&head->peak.number)) &&
             read_records(profile, remote, head));
  free(head);
  if (ok) return NULL;
  profile_free(profile);
  return "its samples make no sense, or there is no memory here";
}

bool profile_allocated(const struct remote *remote, double *bytes) {
  struct profile profile = {0};
  const char *wrong;
  struct samples *head = read_head(remote, &wrong);
  bool ok = head != NULL;
  uint32_t end = ok ? atomic_load(&head->stacks_end) : 0;
  if (ok && head->version > 0 && atomic_load(&head->samples) > 0)
    ok = read_words(&profile, remote, head, end) && find_sites(&profile, end, 0);
  *bytes = profile.allocated_bytes;
  profile_free(&profile);
  free(head);
  return ok;
}

int profile_read(struct profile *profile, const struct remote *remote) {
  memset(profile, 0, sizeof *profile);
  if (remote->shared) return remote_refuse(remote);
  const char *wrong = profile_look(profile, remote);
  if (wrong == NULL) return 0;
  int ended = remote_report(remote, remote_look(remote));
  if (ended != 0) return ended;
  complain("process %d (%s): %s", remote->pid, remote->program, wrong);
  return EXIT_CANNOT_RUN;
}

static uint64_t less(uint64_t number, uint64_t by) { return number > by ? number - by : 0; }

void profile_subtract(struct profile *profile, const struct profile *before) {
  profile->growth_ms = profile->read_ms - before->read_ms;
  for (size_t i = 0; i < profile->site_count; i++) {
    struct site *site = &profile->sites[i];
    const struct site *was = profile_site(before, site->place);
    if (was == NULL) continue;
    site->live_bytes -= was->live_bytes;
    site->live_blocks -= was->live_blocks;
    site->allocated_bytes -= was->allocated_bytes;
    site->allocated_blocks -= was->allocated_blocks;
    site->samples.allocated = less(site->samples.allocated, was->samples.allocated);
    site->samples.live = less(site->samples.live, was->samples.live);
  }
}

void profile_at_peak(struct profile *profile) {
  profile->live_bytes = profile->peak_bytes;
  profile->live_samples = profile->peak_samples;
  profile->live_count = 0;
  for (size_t i = 0; i < profile->site_count; i++) {
    struct site *site = &profile->sites[i];
    site->live_bytes = site->peak.bytes;
    site->live_blocks = site->peak.blocks;
    site->samples =
        (struct site_samples){.allocated = site->samples.allocated, .live = site->peak.samples};
  }
}

void profile_free(struct profile *profile) {
  free(profile->sites);
  free(profile->words);
  free(profile->live);
  profile->sites = NULL;
  profile->words = NULL;
  profile->live = NULL;
}

bool profile_set_rate(const struct remote *remote, int64_t rate) {
  return remote_write(remote, remote->samples + offsetof(struct samples, rate), &rate, sizeof rate);
}
