/* tree.c - binary trees, built from the root and torn down from the leaves.
 *
 * Each thread keeps one tree of DEPTH levels and meanwhile makes and drops others of 4, 6, ... up to
 * DEPTH levels, walking each once. A node is 24 bytes. A node made is an operation.
 *
 * What it shows: malloc and free of one small size in the pattern that free lists like best, and how
 * dense the nodes lie. The idea is that of GCBench by Ellis, Kovac and Boehm, used for garbage
 * collectors, and of the binary-trees programs that came from it.
 */
#define _GNU_SOURCE
#include "harness.h"

struct node {
  struct node *left, *right;
  uint64_t value;
};

struct settings {
  uint64_t threads, operations, depth;
};

static struct node *build(uint64_t depth, uint64_t value) {
  struct node *node = bench_malloc(sizeof *node);
  node->value = value;
  node->left = node->right = NULL;
  if (depth > 1) {
    node->left = build(depth - 1, 2 * value);
    node->right = build(depth - 1, 2 * value + 1);
  }
  return node;
}

static uint64_t walk(const struct node *node) {
  return node == NULL ? 0 : node->value + walk(node->left) + walk(node->right);
}

static void drop(struct node *node) {
  if (node == NULL) return;
  drop(node->left);
  drop(node->right);
  free(node);
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  uint64_t all = bench_share(settings->operations, settings->threads, worker->index);
  struct node *kept = build(settings->depth, worker->index + 1);
  worker->operations = (UINT64_C(1) << settings->depth) - 1;
  uint64_t depth = 4;
  for (uint64_t tree = 1; worker->operations < all; tree++) {
    struct node *root = build(depth, tree);
    worker->checksum += walk(root);
    drop(root);
    worker->operations += (UINT64_C(1) << depth) - 1;
    /* Each depth gets about as many nodes as the one before: a quarter of the trees. */
    uint64_t zeros = (uint64_t)__builtin_ctzll(tree);
    depth = 4 + zeros / 2 * 2;
    if (depth > settings->depth) depth = settings->depth;
  }
  worker->checksum += walk(kept);
  drop(kept);
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "nodes of all threads, or a few more", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"DEPTH", "levels of the largest tree", 4, 26, NULL, "16"},
  };
  uint64_t values[3];
  bench_arguments(argc, argv, "Binary trees, built and torn down.", arguments, 3, values);
  struct settings settings = {.threads = values[0], .operations = values[1], .depth = values[2]};
  struct bench_result result = bench_run(settings.threads, work, &settings, 0);
  bench_report(&result);
  return 0;
}
