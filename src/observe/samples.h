/* samples.h - what the sampler keeps (sample/sample.h), as a tool reads it in the memory of a process.
 *
 * Nothing here is ever freed or moved. Records and stacks lie in chunks, and tell for themselves whether they are whole:
 * a reader in another process takes a chunk, and reads the few again that were being written.
 *
 * A block of `size` bytes is a sample with probability p = 1 - e^(-size / rate), and then stands for 1 / p blocks
 * and size / p bytes: sums over samples are unbiased estimates of the sums over all blocks. The rate may be another one for each
 * sample; its weight tells.
 */
#ifndef HAK_SAMPLES_H
#define HAK_SAMPLES_H

#include <stdatomic.h>
#include <stdint.h>

enum {
  SAMPLES_VERSION = 2,
  SAMPLE_RECORDS_A_CHUNK = 1024,
  SAMPLE_RECORD_CHUNKS = 4096, /* 4 million live samples */
  SAMPLE_STACK_CHUNK_BYTES = 64 * 1024,
  SAMPLE_STACK_CHUNKS = 256, /* 16 MiB */
  SAMPLE_DEPTH_MOST = 64,
  SAMPLE_FIRST_BUCKETS = 128,
  SAMPLE_BLOCK = 1024 /* estimated numbers of blocks are kept in parts of one */
};

/* A live block that was sampled. */
struct sample_record {
  _Atomic uint32_t version; /* odd: it is being written */
  uint32_t next;            /* number + 1 of the next one in its bucket, or without a block */
  _Atomic uint64_t address; /* 0: no block */
  _Atomic uint64_t size;    /* bytes, as asked for */
  _Atomic uint64_t weight;  /* bytes that it stands for: size / p */
  /* os_clock_ms() when it was allocated; without a block: when the last one was freed */
  _Atomic uint64_t since_ms;
  /* address of the heap of the thread that allocated it, 0: none; without a block: where the last one was */
  _Atomic uint64_t heap;
  _Atomic uint32_t
      stack; /* where its stack lies, in 8 bytes from the first chunk's start on; 0: nobody knows */
  _Atomic uint32_t
      size_class; /* of the slab that it would lie in if it were none; CLASS_COUNT: a Large or Huge block */
  double exposure; /* the sampler's own: chance.h */
};
_Static_assert(sizeof(struct sample_record) == 64, "a line each");

/* Samples since the start, and the estimates that they stand for. */
struct sample_totals {
  _Atomic uint64_t samples, blocks, bytes; /* blocks: in SAMPLE_BLOCK */
};

/* Where blocks were allocated, and what became of all of them. Lies in one chunk. */
struct sample_stack {
  uint64_t hash; /* never 0; 0: the rest of the chunk is empty */
  uint32_t depth;
  uint32_t next; /* where the next one of its bucket lies; 0: none */
  struct sample_totals allocated, freed;
  /* What lived at the peak of this number; of another number than the peak's: what lives now, since nothing has changed. */
  struct sample_totals at_peak;
  _Atomic uint64_t saved_for;
  uint64_t addresses[]; /* `depth` of them: return addresses, innermost first */
};

/* The moment at which the live samples stood for most bytes (sample/sums.h). */
struct sample_peak {
  _Atomic uint64_t number;   /* of peaks so far; 0: there was no sample */
  _Atomic uint64_t bytes;    /* that they stood for */
  _Atomic uint64_t samples;  /* how many they were */
  _Atomic uint64_t since_ms; /* when it was */
};

struct samples {
  uint32_t version;      /* SAMPLES_VERSION, from the first sample on */
  _Atomic uint32_t lost; /* 1: in this process, a fork's child, the records cannot be trusted */
  /* A tool's: bytes, -1: off; 0: none has said anything, HAKMEM_PROF_RATE and HAKMEM_PROF_MOST count. Each thread hears of it after its
   * next sample, or its next 64 MiB. */
  _Atomic int64_t rate;
  _Atomic uint64_t samples;    /* taken so far */
  _Atomic uint64_t dropped;    /* had no place */
  _Atomic uint64_t live;       /* records with a block */
  _Atomic uint64_t since_ms;   /* of the first */
  _Atomic uint32_t records;    /* numbers given to records so far */
  _Atomic uint32_t stacks_end; /* where the next stack will lie, in 8 bytes */
  _Atomic uint64_t stack_count;
  _Atomic uint64_t live_bytes; /* that the live samples stand for */
  struct sample_peak peak;
  uint32_t buckets[2][SAMPLE_FIRST_BUCKETS]; /* the sampler's own */
  _Atomic(char *) stack_chunks[SAMPLE_STACK_CHUNKS];
  _Atomic(struct sample_record *) record_chunks[SAMPLE_RECORD_CHUNKS];
};

#endif
