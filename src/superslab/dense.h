/* dense.h - is memory of a kind likely to be written whole? Then it gets huge pages.
 *
 * A huge page makes 2 MiB resident at the first touch, and saves 511 page faults if the rest is written as well. What a
 * program will write nobody knows, but blocks of one kind are mostly used alike. So now and then one of them gets small
 * pages and is a sample: how much of it came into memory decides for the next ones (docs/decisions/0016).
 *
 * Kinds: SuperSlabs that are made for Large blocks, which are expected to be written until a sample says otherwise, and
 * Huge blocks by their number of units, which are not until then: the next one asks already. Longer blocks need no sample:
 * one that is written at its ends alone wastes at most a half with huge pages.
 */
#ifndef HAK_DENSE_H
#define HAK_DENSE_H

#include "superslab/superslab.h"

/* Huge blocks above 8 MiB have no kind. */
enum dense_kind { DENSE_SPANS, DENSE_UNITS_MOST = 4, DENSE_KINDS };

enum dense_answer {
  DENSE_NO,
  DENSE_YES,
  DENSE_BUT_SAMPLE /* all but the unit that is the sample: dense_sample_unit */
};

/** Which unit of a Huge block is looked at: neither its first nor its last where there are others. */
HAK_INLINE size_t dense_sample_unit(size_t units) { return units > 2 ? units / 2 : 0; }

/** Is such memory expected to be written whole? `superslab` (or NULL) names new units that read as zeros and have small
 * pages so far; it may become the sample. Takes superslab_lock. */
enum dense_answer dense_expected(enum dense_kind of, struct superslab *superslab);

/** Makes these units the sample if there is none, without a question. Takes superslab_lock. */
void dense_offer(enum dense_kind of, struct superslab *superslab);

/** Before a Huge block is freed: the last look at it, if it is a sample. Takes superslab_lock then. */
void dense_last_check(struct superslab *superslab);

/** The units are no sample any more; under superslab_lock. */
void dense_forget(struct superslab *superslab);

/** In the child of a fork where nothing that superslab_lock guards is to be trusted: as at the start. */
void dense_forget_all(void);

#endif
