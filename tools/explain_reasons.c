/* explain_reasons.c - see explain.h: what keeps memory, and what would change it, by the figures of a snapshot. */
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "explain.h"
#include "stats.h"

/* What is in the process' power. */
struct circumstances {
  int32_t decay_ms, background, profile, bins_kb;
  bool known;  /* options were read: false in the variant fast, which has none */
  bool helper; /* its thread is there just now */
  int threads; /* of the program */
  bool filter; /* of system calls: seccomp */
  enum explain_helper why;
  double enough; /* bytes that wait before it starts */
  char wait[64]; /* "after 1.0 s" */
};

/* As in policy/options.def. */
enum { BACKGROUND_NEVER, BACKGROUND_ALWAYS, BACKGROUND_AUTO, PROFILE_LEAN = 2 };
enum { LEAN_DECAY_MS = 100, BINS_KB_LITTLE = 256, MS_A_SECOND = 1000 };
/* The purger is called for a share of what is mapped, within these: RELEASE_LEAST and the others in heap/purger.h. */
enum { HELPER_LEAST = 1 << 20, HELPER_MOST = 8 << 20, HELPER_SHARE = 64 };

double explain_worth(const struct snapshot *snapshot) {
  enum { LEAST = 256 * 1024, SHARE = 100 };
  double share = (double)snapshot->resident / SHARE;
  return share > LEAST ? share : LEAST;
}

static __attribute__((format(printf, 2, 3))) void say(char sentence[SENTENCE], const char *format,
                                                      ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, SENTENCE, format, arguments);
  va_end(arguments);
}

/* --- circumstances --------------------------------------------------------------------------------------- */

static void count_threads(struct circumstances *now, const struct remote *remote) {
  char path[96], name[32];
  if (remote->core != NULL) {
    /* It does not say what threads are called: one of several may be the helper. */
    now->threads = (int)remote->core->thread_count;
    return;
  }
  snprintf(path, sizeof path, "/proc/%d/task", remote->pid);
  DIR *directory = opendir(path);
  if (directory == NULL) return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", remote->pid, entry->d_name);
    FILE *file = fopen(path, "re");
    if (file == NULL) continue;
    bool read = fgets(name, sizeof name, file) != NULL;
    if (read && strcmp(name, "hakmem\n") == 0) now->helper = true;
    else now->threads++;
    fclose(file);
  }
  closedir(directory);
}

static bool has_filter(const struct remote *remote) {
  char path[64], line[256];
  bool filter = false;
  if (remote->core != NULL) return false;
  snprintf(path, sizeof path, "/proc/%d/status", remote->task);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "Seccomp:", 8) == 0) filter = strtol(line + 8, NULL, 10) != 0;
  fclose(file);
  return filter;
}

/* As release/background.c decides. */
static enum explain_helper why_no_helper(const struct circumstances *now) {
  if (now->helper) return HELPER_THERE;
  if (now->background == BACKGROUND_NEVER) return HELPER_OFF;
  if (now->background == BACKGROUND_ALWAYS) return HELPER_LATER;
  if (now->threads <= 1) return HELPER_ALONE;
  return now->filter ? HELPER_FILTERED : HELPER_LATER;
}

static void look_around(struct circumstances *now, const struct snapshot *snapshot,
                        const struct remote *remote) {
  *now =
      (struct circumstances){.decay_ms = MS_A_SECOND, .background = BACKGROUND_AUTO, .profile = 1};
  now->known = remote_option(remote, "HAKMEM_WARM_POOL_DECAY_MS", &now->decay_ms);
  (void)remote_option(remote, "HAKMEM_BACKGROUND", &now->background);
  (void)remote_option(remote, "HAKMEM_PROFILE", &now->profile);
  (void)remote_option(remote, "HAKMEM_BINS_KB", &now->bins_kb);
  count_threads(now, remote);
  now->filter = has_filter(remote);
  now->why = why_no_helper(now);
  double share = (double)snapshot->mapped_bytes / HELPER_SHARE;
  now->enough = share < HELPER_LEAST ? HELPER_LEAST : share > HELPER_MOST ? HELPER_MOST : share;
  if (now->decay_ms >= MS_A_SECOND)
    snprintf(now->wait, sizeof now->wait, "%.1f s", (double)now->decay_ms / MS_A_SECOND);
  else snprintf(now->wait, sizeof now->wait, "%d ms", (int)now->decay_ms);
}

/* When what nobody uses goes back by itself. */
static void say_when(const struct circumstances *now, double waiting, char sentence[SENTENCE]) {
  static const char *const why[] = {
      [HELPER_OFF] = "HAKMEM_BACKGROUND is 0",
      [HELPER_ALONE] = "the program has one thread",
      [HELPER_FILTERED] = "the program has a filter of system calls (seccomp)",
  };
  char enough[16];
  if (now->decay_ms == 0)
    say(sentence, "it stays: HAKMEM_WARM_POOL_DECAY_MS is 0, as in the profile speed");
  else if (now->why == HELPER_THERE)
    say(sentence, "it goes back once it has been unused for %s: hakmem's thread is at it",
        now->wait);
  else if (now->why != HELPER_LATER)
    say(sentence,
        "it goes back once it has been unused for %s, in calls of malloc that the program "
        "makes then: while it sleeps nothing happens, since no helper thread runs (%s)",
        now->wait, why[now->why]);
  else if (waiting < now->enough)
    say(sentence, "it stays for now: hakmem's thread begins when %s wait",
        stats_bytes(now->enough, enough));
  else
    say(sentence,
        "no helper thread runs: one of the program's next calls of malloc starts it, and %s later "
        "it goes back; if none is there then, the system refuses threads",
        now->wait);
}

/* --- reasons ----------------------------------------------------------------------------------------------- */

struct finder {
  struct explanation *explanation;
  struct reason *all;
  size_t count, room;
};

static struct reason *add(struct finder *finder, enum reason_kind kind, double bytes) {
  if (finder->count == finder->room) return NULL;
  struct reason *reason = &finder->all[finder->count++];
  *reason = (struct reason){.kind = kind, .bytes = bytes};
  return reason;
}

static void add_class(struct finder *finder, const struct class_figures *figures) {
  char bytes[16];
  if (figures->size == 0 || figures->pinned < 1) return;
  struct reason *reason = add(finder, REASON_PINNED, figures->pinned);
  if (reason == NULL) return;
  reason->size = figures->size;
  reason->pages = figures->pinned_pages;
  reason->blocks = (uint64_t)(figures->pinning / figures->size + 0.5);
  double pages = (double)figures->pinned_pages;
  say(reason->sentence,
      "free blocks of %u bytes lie on %llu page%s with blocks in use, which keep them: %llu "
      "block%s, %.1f a page, %.0f%% of these pages; %s of pages for %s in use",
      figures->size, (unsigned long long)reason->pages, stats_plural(reason->pages),
      (unsigned long long)reason->blocks, stats_plural(reason->blocks),
      (double)reason->blocks / pages, 100 * figures->pinning / (figures->pinning + figures->pinned),
      stats_bytes(figures->pinning + figures->pinned, bytes),
      stats_bytes(figures->pinning, (char[16]){0}));
  say(reason->goes_when, "it stays until these blocks are freed, or new ones fill the places");
}

static bool is_of_thread(const struct heap_figures *heap) {
  return !heap->parked && !heap->samples && !heap->common && !heap->named;
}

static void add_thread(struct finder *finder, const struct heap_figures *heap) {
  char thread[40], bins[16], unsent[16], inbox[16];
  double bytes = (double)(heap->bins + heap->outgoing + heap->inbox);
  struct reason *reason = add(finder, REASON_THREAD, bytes);
  if (reason == NULL) return;
  reason->heap_thread = heap->thread;
  say(reason->sentence,
      "thread %s keeps free blocks: %s in its bins for its next calls, %s that it has not sent to "
      "their owners, %s that others sent and it has not fetched",
      stats_thread(heap, thread), stats_bytes((double)heap->bins, bins),
      stats_bytes((double)heap->outgoing, unsent), stats_bytes((double)heap->inbox, inbox));
  if (heap->inbox > heap->bins && heap->inbox > heap->outgoing)
    say(reason->goes_when,
        "it goes back to its slabs when the thread allocates again, or by a trim");
  else if (heap->outgoing > heap->bins)
    say(reason->goes_when, "it goes to its owners when the thread sleeps, or by a trim");
  else
    say(reason->goes_when, "only the thread itself can empty its bins: by its own calls, or when "
                           "it calls malloc_trim");
}

/* A heap that the program has made. */
static void add_heap(struct finder *finder, const struct heap_figures *heap) {
  struct reason *reason = add(finder, REASON_HEAP, (double)heap->bins);
  if (reason == NULL) return;
  reason->heap_name = heap->own_name;
  if (heap->own_name[0] == 0)
    say(reason->sentence,
        "a heap of the program without a name keeps free blocks for its next calls");
  else
    say(reason->sentence, "the heap \"%s\" of the program keeps free blocks for its next calls",
        heap->own_name);
  say(reason->goes_when,
      "it stays until the heap hands them out again, or the program destroys the heap");
}

static void add_ended(struct finder *finder, const struct snapshot *snapshot) {
  char slabs[16];
  double bytes = 0, owned = 0;
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    if (!heap->parked) continue;
    bytes += (double)(heap->bins + heap->inbox);
    owned += (double)heap->slab_bytes;
  }
  struct reason *reason = add(finder, REASON_ENDED, bytes);
  if (reason == NULL) return;
  say(reason->sentence,
      "%zu thread%s that %s ended left free blocks in %s, beside %s of slabs with blocks "
      "that live on",
      snapshot->heaps_parked, stats_plural(snapshot->heaps_parked),
      snapshot->heaps_parked == 1 ? "has" : "have",
      snapshot->heaps_parked == 1 ? "its bins" : "their bins", stats_bytes(owned, slabs));
  say(reason->goes_when, "the next threads that start take it over; a trim gives it back");
}

/* Free blocks of pages that nothing keeps. */
static void add_pages(struct finder *finder, const struct snapshot *snapshot,
                      const struct circumstances *now) {
  double loose = 0, huge = 0, unused = snapshot->fragmentation;
  double empty = snapshot->warm_resident + snapshot->slices_resident + snapshot->spans_resident;
  char warm[16], slices[16], spans[16];
  for (unsigned c = 0; c < CLASSES_MOST; c++) {
    const struct class_figures *figures = &snapshot->classes[c];
    loose += figures->loose;
    huge += figures->huge;
    unused -= figures->loose + figures->huge + figures->pinned;
  }
  struct reason *reason = add(finder, REASON_LOOSE, loose);
  if (reason != NULL) {
    say(reason->sentence, "whole pages of free blocks that were not given back so far");
    say_when(now, loose + empty, reason->goes_when);
  }
  reason = add(finder, REASON_HUGE, huge);
  if (reason != NULL) {
    say(reason->sentence, "free pages in huge pages of 2 MiB that are in use otherwise: too little "
                          "to break these up for it");
    say(reason->goes_when, "it stays until more of them is free; a trim gives it back");
  }
  reason = add(finder, REASON_EMPTY, empty);
  if (reason != NULL) {
    say(reason->sentence,
        "empty memory is kept for the next need: %s in the warm pool, %s of free slices, %s of "
        "large blocks that threads have cached",
        stats_bytes(snapshot->warm_resident, warm), stats_bytes(snapshot->slices_resident, slices),
        stats_bytes(snapshot->spans_resident, spans));
    say_when(now, loose + empty, reason->goes_when);
  }
  reason = add(finder, REASON_UNUSED, unused > 0 ? unused : 0);
  if (reason != NULL) {
    say(reason->sentence, "memory of slabs that was no block so far, or changed while it was read");
    say(reason->goes_when, "the next blocks of these sizes take it");
  }
}

static void add_rest(struct finder *finder, const struct snapshot *snapshot) {
  struct reason *reason = add(finder, REASON_SLACK, snapshot->slack);
  if (reason != NULL) {
    say(reason->sentence,
        "lies behind the last block of slabs, and behind the ends of blocks above 1 MiB");
    say(reason->goes_when, "it goes with the blocks");
  }
  reason = add(finder, REASON_METADATA, snapshot->metadata);
  if (reason != NULL) {
    say(reason->sentence, "descriptors, heaps, the address map, and the library itself");
    say(reason->goes_when, "it stays: it is reused, and follows the most that was mapped at once");
  }
}

static int by_bytes(const void *a, const void *b) {
  double left = ((const struct reason *)a)->bytes, right = ((const struct reason *)b)->bytes;
  return left < right ? 1 : left > right ? -1 : 0;
}

static void keep_largest(struct finder *finder, const struct snapshot *snapshot) {
  struct explanation *explanation = finder->explanation;
  double worth = explain_worth(snapshot);
  qsort(finder->all, finder->count, sizeof *finder->all, by_bytes);
  for (size_t i = 0; i < finder->count; i++) {
    bool own = finder->all[i].kind == REASON_METADATA; /* a few hundred KiB are in every process */
    bool kept = finder->all[i].bytes >= (own ? 4 * worth : worth) &&
                explanation->reason_count < REASONS_MOST;
    if (kept) explanation->reasons[explanation->reason_count++] = finder->all[i];
    else if (!own) explanation->more += finder->all[i].bytes;
  }
}

/* Less than a tenth of what is resident is what every program on hakmem has. */
static bool is_well(struct explanation *explanation) {
  enum { SHARE = 10 };
  double sum = explanation->more;
  for (unsigned i = 0; i < explanation->reason_count; i++) sum += explanation->reasons[i].bytes;
  if (sum * SHARE >= (double)explanation->snapshot->resident) return false;
  explanation->reason_count = 0;
  explanation->more = sum;
  return true;
}

/* --- what would help --------------------------------------------------------------------------------------- */

static __attribute__((format(printf, 4, 5))) void
advise(struct explanation *explanation, const char *option, double bytes, const char *format, ...) {
  va_list arguments;
  if (bytes < explain_worth(explanation->snapshot) || explanation->advice_count == ADVICE_MOST)
    return;
  struct advice *advice = &explanation->advice[explanation->advice_count++];
  snprintf(advice->option, sizeof advice->option, "%s", option);
  advice->bytes = bytes;
  va_start(arguments, format);
  vsnprintf(advice->sentence, SENTENCE, format, arguments);
  va_end(arguments);
}

static void find_advice(struct explanation *explanation, const struct circumstances *now) {
  const struct snapshot *snapshot = explanation->snapshot;
  double empty = snapshot->warm_resident + snapshot->slices_resident + snapshot->spans_resident;
  double waits = empty, pinned = 0, huge = 0, bins = 0, ended = 0;
  for (unsigned c = 0; c < CLASSES_MOST; c++) {
    waits += snapshot->classes[c].loose;
    huge += snapshot->classes[c].huge;
    pinned += snapshot->classes[c].pinned;
  }
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    double over = (double)heap->bins - BINS_KB_LITTLE * 1024.0;
    if (heap->parked) ended += (double)(heap->bins + heap->inbox);
    else if (is_of_thread(heap) && over > 0) bins += over;
  }
  explanation->trim = waits + huge + ended;
  if (now->known && now->decay_ms == 0)
    advise(explanation, "HAKMEM_PROFILE=balanced", waits,
           "gives back what is unused for a second; without it nothing goes back");
  else if (now->known && now->why != HELPER_THERE && now->why != HELPER_LATER)
    advise(explanation, "HAKMEM_BACKGROUND=1", waits,
           "lets a helper thread of hakmem's give memory back while the program sleeps%s",
           now->filter ? ", if the filter allows its calls as Docker's does (hakmem(5))" : "");
  /* Sooner helps where somebody is there to do it. */
  if (now->known && now->decay_ms > LEAN_DECAY_MS &&
      (now->why == HELPER_THERE || now->why == HELPER_LATER))
    advise(explanation, "HAKMEM_PROFILE=lean", waits,
           "gives memory back after %d ms instead of %s, and keeps at most 256 MiB of empty memory",
           LEAN_DECAY_MS, now->wait);
  if (now->known && now->bins_kb > BINS_KB_LITTLE)
    advise(explanation, "HAKMEM_BINS_KB=256", bins,
           "lets each thread keep 256 KiB in its bins; takes more time where it frees and "
           "allocates more than that in turn");
  advise(explanation, "hak_should_move", pinned,
         "no option moves blocks; a program that can move its own asks this function which "
         "(hakmem(3))");
}

bool explain_find(struct explanation *explanation, const struct snapshot *snapshot,
                  const struct profile *profile, const struct remote *remote) {
  struct circumstances now;
  memset(explanation, 0, sizeof *explanation);
  explanation->snapshot = snapshot;
  explanation->profile = profile;
  look_around(&now, snapshot, remote);
  struct finder finder = {.explanation = explanation,
                          .room = CLASSES_MOST + snapshot->heap_count + REASONS_MOST};
  finder.all = calloc(finder.room, sizeof *finder.all);
  if (finder.all == NULL) return false;
  for (unsigned c = 0; c < CLASSES_MOST; c++) add_class(&finder, &snapshot->classes[c]);
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    if (heap->named) add_heap(&finder, heap);
    else if (is_of_thread(heap)) add_thread(&finder, heap);
  }
  add_ended(&finder, snapshot);
  add_pages(&finder, snapshot, &now);
  add_rest(&finder, snapshot);
  explanation->helper = now.why;
  keep_largest(&finder, snapshot);
  free(finder.all);
  if (is_well(explanation)) return true;
  bool done = true;
  for (unsigned i = 0; i < explanation->reason_count; i++) {
    struct reason *reason = &explanation->reasons[i];
    for (unsigned c = 0; c < CLASSES_MOST && reason->kind == REASON_PINNED; c++)
      if (snapshot->classes[c].size == reason->size)
        done = explain_holders(&reason->holders, &(struct holders_of){.size_class = c}, profile) &&
               done;
  }
  find_advice(explanation, &now);
  return done;
}
