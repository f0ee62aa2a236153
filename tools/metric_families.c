/* metric_families.c - see metric_families.h. In the order in which they are written. */
#include "metric_families.h"

#include <stddef.h>

const struct family metric_families[FAMILIES] = {
    [INFO] = {"hakmem", "info", NULL, "What runs in the process."},
    [PROCESSES] = {"hakmem_processes", "gauge", NULL, "Processes that were read."},
    [LEFT_OUT] = {"hakmem_processes_left_out", "gauge", NULL,
                  "Processes that were not read, by the reason."},
    [RESIDENT] = {"hakmem_resident_bytes", "gauge", "bytes",
                  "Resident memory of the process, as the kernel says."},
    [MEMORY] = {"hakmem_memory_bytes", "gauge", "bytes",
                "Resident memory by what it is; the parts add up to hakmem_resident_bytes."},
    [IN_USE] = {"hakmem_in_use_bytes", "gauge", "bytes",
                "Bytes of all blocks that the program holds, resident or not."},
    [ROUNDING] = {"hakmem_rounding_bytes", "gauge", "bytes",
                  "Of the live part of hakmem_memory_bytes, what size classes added to what was "
                  "asked for, estimated by samples."},
    [ROUNDING_ERROR] = {"hakmem_rounding_error_bytes", "gauge", "bytes",
                        "In 19 of 20 cases hakmem_rounding_bytes is no farther from the truth."},
    [CLASS_ROUNDING] = {"hakmem_class_rounding_bytes", "gauge", "bytes",
                        "The same by size of blocks."},
    [PEAK] = {"hakmem_peak_bytes", "gauge", "bytes",
              "The most bytes in live blocks that the program ever had asked for, estimated by "
              "samples."},
    [PEAK_AT] = {"hakmem_peak_timestamp_seconds", "gauge", "seconds",
                 "When that was, in seconds since 1970."},
    [MAPPED] = {"hakmem_mapped_bytes", "gauge", "bytes",
                "Address space for blocks, resident or not."},
    [SWAPPED] = {"hakmem_swapped_bytes", "gauge", "bytes",
                 "Memory of the process that was swapped out."},
    [GIVEN] = {"hakmem_given_bytes", "gauge", "bytes",
               "Pages given back inside slabs and cached large blocks."},
    [CLASS] = {"hakmem_class_bytes", "gauge", "bytes",
               "Resident memory of slabs by size of blocks and by what it is."},
    [CACHE] = {"hakmem_cache_bytes", "gauge", "bytes", "Free memory that is kept, by where it is."},
    [HEAPS] = {"hakmem_heaps", "gauge", NULL,
               "Heaps, each of one thread or of one that has ended."},
    [NAMED] = {"hakmem_named_heap_live_bytes", "gauge", "bytes",
               "Bytes of the blocks that live in heaps of this name, which the program has made."},
    [PARTIAL] = {"hakmem_partial", "gauge", NULL,
                 "1: it changed while it was read, and its figures are of several moments."},
    [ALLOCATED_BYTES] = {"hakmem_allocated_bytes", "counter", "bytes",
                         "Bytes allocated since the start, live or not, estimated by samples."},
    [ALLOCATED_BLOCKS] = {"hakmem_allocated_blocks", "counter", NULL,
                          "Blocks allocated since the start, live or not, estimated by samples."},
    [SAMPLES] = {"hakmem_samples", "counter", NULL, "Blocks that were sampled since the start."},
    [SAMPLES_DROPPED] = {"hakmem_samples_dropped", "counter", NULL,
                         "Samples that were dropped for want of memory."},
    [SAMPLES_LIVE] = {"hakmem_live_samples", "gauge", NULL,
                      "Sampled blocks that live: what a heap profile rests on."},
    [SAMPLE_RATE] = {"hakmem_sample_rate_bytes", "gauge", "bytes",
                     "One block in so many bytes is sampled; 0: none."},
    [CALLS] = {"hakmem_system_calls", "counter", NULL, "System calls for memory since the start."},
    [CALLS_REFUSED] = {"hakmem_system_calls_refused", "counter", NULL,
                       "System calls for memory that the kernel refused."},
    [FAULTS] = {"hakmem_page_faults", "counter", NULL,
                "Page faults of the process; the major ones waited for a disk."},
    [LIMIT] =
        {"hakmem_limit_bytes", "gauge", "bytes",
         "What the process may take: of its container, where the kernel kills, and of address "
         "space, where malloc fails."},
    [LIMIT_USED] =
        {"hakmem_limit_used_bytes", "gauge", "bytes",
         "What of the limit is used: by the whole container without idle caches of files, "
         "or of the process' address space."},
    [RETURNABLE] = {"hakmem_returnable_bytes", "gauge", "bytes",
                    "Resident memory that goes back at least if a trim is asked for: whole free "
                    "blocks, slices and units."},
    [START_TIME] = {"hakmem_process_start_time_seconds", "gauge", "seconds",
                    "When the process began, in seconds since 1970."},
};
