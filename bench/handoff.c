/* handoff.c - blocks allocated by one thread and freed by another, through a bounded queue.
 *
 * Producers make requests: a block that points to BLOCKS others of random sizes, as an asynchronous
 * server's acceptor reads header, path and body of a message. Consumers read and free all of it;
 * with REPLY=yes they also allocate a reply, which the producer frees. 1:1, N:1 and 1:N are
 * arguments. A block handed over is an operation.
 *
 * What it shows: the cost of remote frees in bulk, and whether memory flows back to the producer or
 * piles up at the consumer.
 *
 * The queue costs little beside the blocks: requests go in and out by the batch, under one lock,
 * and who sleeps is woken for a quarter of a queue's worth, not for each request.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdatomic.h>

#define BATCH 16
#define MAX_BLOCKS 64

struct reply {
  uint32_t stamp;
  struct reply *next;
};

struct request {
  uint32_t stamp;
  uint32_t reply_stamp;
  uint64_t reply_size;
  _Atomic(struct reply *) *reply_to; /* the producer's inbox; NULL: no reply wanted */
  char *blocks[];
};

struct queue {
  pthread_mutex_t lock;
  pthread_cond_t filled, emptied;
  struct request **ring;
  uint64_t capacity, first, count;
  uint64_t producers; /* not done yet */
  uint64_t waiting_producers, waiting_consumers;
};

struct inbox {
  _Alignas(128) _Atomic(struct reply *) replies;
};

struct settings {
  uint64_t producers, requests, blocks, min_size, max_size;
  bool reply;
  struct queue queue;
  struct inbox *inboxes;
};

/* --- the queue --------------------------------------------------------------------------------- */

static void push(struct queue *queue, struct request **requests, uint64_t count) {
  pthread_mutex_lock(&queue->lock);
  while (queue->capacity - queue->count < count) {
    queue->waiting_producers++;
    pthread_cond_wait(&queue->emptied, &queue->lock);
    queue->waiting_producers--;
  }
  for (uint64_t i = 0; i < count; i++)
    queue->ring[(queue->first + queue->count + i) & (queue->capacity - 1)] = requests[i];
  queue->count += count;
  if (queue->waiting_consumers != 0 && queue->count >= queue->capacity / 4)
    pthread_cond_signal(&queue->filled);
  pthread_mutex_unlock(&queue->lock);
}

static void leave(struct queue *queue) {
  pthread_mutex_lock(&queue->lock);
  if (--queue->producers == 0) pthread_cond_broadcast(&queue->filled);
  else if (queue->waiting_producers != 0) pthread_cond_signal(&queue->emptied);
  pthread_mutex_unlock(&queue->lock);
}

/* At most BATCH requests; 0 when the queue is empty for good. */
static uint64_t pop(struct queue *queue, struct request **requests) {
  pthread_mutex_lock(&queue->lock);
  while (queue->count == 0 && queue->producers != 0) {
    queue->waiting_consumers++;
    pthread_cond_wait(&queue->filled, &queue->lock);
    queue->waiting_consumers--;
  }
  uint64_t count = queue->count < BATCH ? queue->count : BATCH;
  for (uint64_t i = 0; i < count; i++)
    requests[i] = queue->ring[(queue->first + i) & (queue->capacity - 1)];
  queue->first += count;
  queue->count -= count;
  /* One for each batch: it is a batch that fits in again. */
  if (queue->waiting_producers != 0 && queue->count <= queue->capacity / 2)
    pthread_cond_signal(&queue->emptied);
  pthread_mutex_unlock(&queue->lock);
  return count;
}

/* --- producers and consumers ------------------------------------------------------------------- */

static uint64_t draw_size(const struct settings *settings, uint64_t *state) {
  bench_draw(state);
  return settings->min_size +
         bench_below(bench_high(*state), settings->max_size - settings->min_size + 1);
}

static struct request *make_request(const struct settings *settings, uint64_t *state) {
  struct request *request =
      bench_malloc(sizeof *request + settings->blocks * sizeof request->blocks[0]);
  for (uint64_t i = 0; i < settings->blocks; i++) {
    uint64_t size = draw_size(settings, state);
    char *block = bench_malloc(size);
    bench_touch(block, size, (char)*state);
    bench_stamp(block, bench_low(*state));
    request->blocks[i] = block;
  }
  request->reply_size = draw_size(settings, state);
  request->stamp = bench_low(*state);
  request->reply_stamp = bench_high(*state);
  return request;
}

/* Frees the replies that are there; the sum of their stamps. */
static uint64_t take_replies(struct inbox *inbox) {
  uint64_t checksum = 0;
  struct reply *reply = atomic_exchange_explicit(&inbox->replies, NULL, memory_order_acquire);
  while (reply != NULL) {
    struct reply *next = reply->next;
    checksum += reply->stamp;
    free(reply);
    reply = next;
  }
  return checksum;
}

static void produce(struct bench_worker *worker, struct settings *settings) {
  struct inbox *inbox = &settings->inboxes[worker->index];
  uint64_t left = bench_share(settings->requests, settings->producers, worker->index);
  struct request *batch[BATCH];
  while (left != 0) {
    uint64_t count = left < BATCH ? left : BATCH;
    for (uint64_t i = 0; i < count; i++) {
      batch[i] = make_request(settings, &worker->random);
      batch[i]->reply_to = settings->reply ? &inbox->replies : NULL;
    }
    push(&settings->queue, batch, count);
    if (settings->reply) worker->checksum += take_replies(inbox);
    left -= count;
  }
  leave(&settings->queue);
}

static void answer(const struct request *request) {
  struct reply *reply = bench_malloc(request->reply_size);
  reply->stamp = request->reply_stamp;
  reply->next = atomic_load_explicit(request->reply_to, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(request->reply_to, &reply->next, reply,
                                                memory_order_release, memory_order_relaxed))
    continue;
}

static void consume(struct bench_worker *worker, struct settings *settings) {
  struct request *batch[BATCH];
  uint64_t count;
  while ((count = pop(&settings->queue, batch)) != 0) {
    for (uint64_t i = 0; i < count; i++) {
      struct request *request = batch[i];
      for (uint64_t k = 0; k < settings->blocks; k++) {
        worker->checksum += bench_stamp_of(request->blocks[k]);
        free(request->blocks[k]);
      }
      if (request->reply_to != NULL) answer(request);
      worker->checksum += request->stamp;
      free(request);
    }
    worker->operations += count * (settings->blocks + 1 + (settings->reply ? 1 : 0));
  }
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  if (worker->index < settings->producers) produce(worker, settings);
  else consume(worker, settings);
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"PRODUCERS", "threads that allocate", 1, BENCH_MAX_THREADS / 2, NULL, NULL},
      {"CONSUMERS", "threads that free", 1, BENCH_MAX_THREADS / 2, NULL, NULL},
      {"REQUESTS", "requests of all producers", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"BLOCKS", "blocks that a request points to", 1, MAX_BLOCKS, NULL, NULL},
      {"MIN_SIZE", "smallest block, bytes", sizeof(struct reply), BENCH_MAX_SIZE, NULL, NULL},
      {"MAX_SIZE", "largest block, bytes", sizeof(struct reply), BENCH_MAX_SIZE, NULL, NULL},
      {"REPLY", "whether consumers send a block back", 0, 0, "no|yes", "no"},
      {"QUEUE", "requests that the queue holds; rounded up to a power of 2", 4 * BATCH, 1 << 20,
       NULL, "1024"},
      BENCH_SEED,
  };
  uint64_t values[9];
  bench_arguments(argc, argv, "Blocks allocated by one thread and freed by another.", arguments, 9,
                  values);
  static struct settings settings;
  settings = (struct settings){
      .producers = values[0],
      .requests = values[2],
      .blocks = values[3],
      .min_size = values[4],
      .max_size = values[5],
      .reply = values[6] == 1,
      .queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
                .filled = PTHREAD_COND_INITIALIZER,
                .emptied = PTHREAD_COND_INITIALIZER,
                .capacity = 4 * BATCH,
                .producers = values[0]},
  };
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);
  while (settings.queue.capacity < values[7]) settings.queue.capacity *= 2;
  settings.queue.ring = bench_map(settings.queue.capacity * sizeof(struct request *));
  settings.inboxes = bench_map(settings.producers * sizeof(struct inbox));

  struct bench_result result = bench_run(values[0] + values[1], work, &settings, values[8]);

  for (uint64_t i = 0; i < settings.producers; i++)
    result.checksum += take_replies(&settings.inboxes[i]);
  bench_report(&result);
  return 0;
}
