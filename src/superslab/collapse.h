/* collapse.h - the first SuperSlabs of a heap become huge pages, once the heap is large.
 *
 * They had small pages, since nobody knew that the heap would grow (HUGE_PAGES_FROM), and would keep them for as long as it lives. For
 * each SuperSlab that is made with huge pages one of them follows: one that is in use altogether, in memory of its own, and of which
 * nothing was given back (docs/decisions/0041).
 */
#ifndef HAK_COLLAPSE_H
#define HAK_COLLAPSE_H

#include "superslab/superslab.h"

/** Notes a new SuperSlab that has small pages because its heap is small. Takes superslab_lock. */
void collapse_note(struct superslab *superslab);

/** So many SuperSlabs were made with huge pages, each of which a noted one is to follow; relaxed: a hint. */
extern atomic_uint collapse_owed HAK_HIDDEN;

/** The last one that was looked at is in use altogether, and much of it was never written: blocks of this program are not written whole. New SuperSlabs get
 * small pages then, and the next look is owed for each; relaxed: a hint. */
extern atomic_bool collapse_finds_sparse HAK_HIDDEN;

/** Makes a huge page that is owed, if a noted SuperSlab is fit for it. Opens files (os_files_are_safe). Takes as long as the first touch of a huge page, and a copy of
 * 2 MiB: 0.6 ms, 20 ms where the kernel has to make room for one (docs/decisions/0041). Keeps errno. The caller keeps the purger away, so that
 * nothing is given back meanwhile, and holds no lock of a heap. */
void collapse_one(void);

/* --- for this room ----------------------------------------------------------------------------------------- */

/** It is noted no more; under superslab_lock. False: its huge page is being made just now, so that its unit has to stay for that
 * long, and collapse_put sees to it. */
bool collapse_forget(const struct superslab *superslab);
/** In the child of a fork: nobody makes any. `whole`: what superslab_lock guards can be trusted. */
void collapse_fork_child(bool whole);

/* The two halves of collapse_one, for tests. */

enum collapse_result { COLLAPSE_DONE, COLLAPSE_LATER, COLLAPSE_NEVER };
/** The next one that is fit by what is known of it, from now on held; NULL: none, or another one is held. Takes superslab_lock. */
struct superslab *collapse_take(void);
/** Lets it go, and gives it up if it became empty meanwhile. COLLAPSE_LATER: it is noted again. */
void collapse_put(struct superslab *superslab, enum collapse_result result);

#endif
