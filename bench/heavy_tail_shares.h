/* heavy_tail_shares.h - how large the blocks of real programs are, and how long they live.
 *
 * Measured on ten programs of Debian 12, each on an input of a second or so, with a preloaded library
 * that recorded every allocation: gcc 12 (cc1, optimising a C file of 400 functions), git (the log of
 * a repository with statistics and patches), redis (redis-benchmark: strings, lists, hashes, sets),
 * sqlite3 (a table of 60,000 rows, an index, grouping, a join), perl and gawk (word counts), ruby and
 * jq (JSON of 30,000 objects), lua (strings and tables), graphviz (dot, 250 edges). Each program
 * counts alike, whatever the number of its allocations; a realloc counts as free and malloc.
 *
 * A row is a class of sizes: those above the row before, up to the row's own, in bytes. A column is a
 * class of lifetimes likewise, in allocations of the process from a block's own to its end; the last
 * column holds the blocks that were never freed too. The figures are parts of a million.
 *
 * Both are heavy-tailed: half of the blocks have at most 32 bytes, one in 25,000 more than 64 KiB;
 * a quarter die before the next allocation, a fifth outlive 262,144 of them or the program. In the
 * steady state of a replay 144,000 blocks with 19 MB are alive.
 */
#ifndef BENCH_HEAVY_TAIL_SHARES_H
#define BENCH_HEAVY_TAIL_SHARES_H

#include <stdint.h>

#define SMALLEST 16
#define LIFETIMES 11

static const uint32_t lifetimes[LIFETIMES] = {1,    4,     16,    64,     256,    1024,
                                              4096, 16384, 65536, 262144, 1048576};

static const struct {
  uint32_t size;
  uint32_t shares[LIFETIMES];
} sizes[] = {
    // clang-format off
    {     16, {85301, 24697, 28265, 31143,  3415,  3336,  2155,  1167,   351,  4747, 54177}},
    {     24, {81073, 22373, 13604,  4871,  9638,  5361,  2364,  1179,    47,    49, 55187}},
    {     32, { 9260,  8720, 17307,  1003,  1102,  4786, 13881, 32321,  8959,   651, 16036}},
    {     48, {17714,  9522,  6850,  2876,  1628,   870,  2427,  2375,   673,   329, 11051}},
    {     64, {11548, 12627,  1675,  2437,   778,   640,  1063,  1699,  3824,   787,  5594}},
    {     96, { 7936,  4945,  7009,  2564,  1535, 51029, 22657, 20310,  1849,  1090, 10285}},
    {    128, {17339,  5981,  3459,  1651,   301,  1182,  3728,  2440,   557,   342, 31463}},
    {    192, { 4866,  2563,  2715,  1860,  1163,   376,   316,   840,     4,     8, 14007}},
    {    256, { 3573,   358,  2078,  1687,  1346,   297,  1780,  1590,  3679,    26,  2821}},
    {    384, { 3698,   494,  2428,  1455,   977,   135,   397,  1391,  1419,   131,  3840}},
    {    512, {  858,  1813,  4929,  2024,   649,    79,   727,   166,    42,  1126,  8851}},
    {    768, {  750,   481,  5159,  3804,   706,  1147,  1766,  2236,    62,    51,   102}},
    {   1024, {  246,   175,  2256,  2560,   384,    67,    24,    36,     5,     2,   207}},
    {   1536, {  267,   286,  2537,  2239,   243,    81,    66,    46,     1,     7,   135}},
    {   2048, {  100,   111,  1909,  2511,   151,    68,    25,    18,     2,     1,   125}},
    {   3072, {  629,    69,  1684,  1432,    82,    17,     5,    16,     1,     1,    38}},
    {   4096, { 4314,    54,  1359,  1684,   501,    37,    23,     2,     8,     4,   482}},
    {   6144, {  376,   220,  1068,   671,    77,     9,     4,     5,   192,   167,   112}},
    {   8192, { 2864,  4063,   883,   677,   114,    43,     6,     7,     0,     1,    69}},
    {  12288, {  371,    65,    22,  1276,    54,    14,     1,     1,     3,     0,   205}},
    {  16384, {   75,   121,    30,    73,    10,    30,     6,     3,     2,    35,     4}},
    {  32768, { 6752,    18,    12,    72,    19,    10,     1,     3,     1,    35,    13}},
    {  65536, {  538,     8,     2,    15,    14,     2,    18,    28,    14,     1,     8}},
    { 131072, {    2,     0,     0,     0,     1,     0,     3,     6,     2,     1,     5}},
    { 262144, {    1,     4,     0,     0,     1,     0,     2,     1,     0,     0,     1}},
    {1048576, {    1,     0,     0,     0,     0,     0,     0,     0,     0,     1,     8}},
    {2097152, {    2,     0,     0,     0,     0,     0,     1,     0,     0,     0,     0}},
    // clang-format on
};

#define SIZES (sizeof sizes / sizeof sizes[0])

#endif
