/* core_points.c - see core_end.h: which addresses tell something about the end of a process.
 *
 * The address of a fault often is none of ours: a field of a freed block was taken for a pointer. Then a register still holds the block's own
 * address, and that is what the reader of a core would look for.
 */
#include <stdlib.h>
#include <string.h>

#include "core_end.h"

/* Looks up one more; false: it is known, or there is no place. */
static bool add(struct core_report *report, const char *of, uint64_t address) {
  if (report->point_count == POINTS_KEPT) return false;
  struct core_point *point = &report->points[report->point_count];
  if (!where_find(&point->where, report->reader, address)) return false;
  for (unsigned i = 0; i < report->point_count; i++) {
    const struct where *other = &report->points[i].where;
    bool same = other->kind == point->where.kind && other->start == point->where.start &&
                other->bytes == point->where.bytes;
    if (other->address == address || (same && point->where.bytes != 0)) return false;
  }
  point->of = of;
  report->point_count++;
  return true;
}

static void add_of_line(struct core_report *report, const char *line) {
  for (const char *at = line; (at = strstr(at, "0x")) != NULL; at += 2) {
    uint64_t address = strtoull(at, NULL, 16);
    bool in_file = at > line && at[-1] == '+'; /* a place in code: "server+0x12" */
    if (!in_file && address != 0) (void)add(report, NULL, address);
  }
}

static bool is_of_block(const struct where *where) {
  switch (where->kind) {
  case WHERE_SLAB:
  case WHERE_LARGE:
  case WHERE_HUGE:
  case WHERE_CACHED:
  case WHERE_FREE:
  case WHERE_POOL:
  case WHERE_GUARDED:
    return true;
  default:
    return false;
  }
}

static bool is_live(const struct where *where) {
  return where->kind == WHERE_SLAB ? where->block.state == BLOCK_LIVE : where->live;
}

/* Of live blocks, or of all others. */
static void add_registers(struct core_report *report, bool live) {
  for (unsigned i = 0; i < CORE_REGISTERS; i++) {
    const char *name = core_register_name(i);
    if (name == NULL || report->core->registers[i] == 0) continue;
    if (add(report, name, report->core->registers[i]) &&
        (!is_of_block(&report->points[report->point_count - 1].where) ||
         is_live(&report->points[report->point_count - 1].where) != live))
      report->point_count--;
  }
}

void core_find_points(struct core_report *report) {
  const struct core *core = report->core;
  bool of_processor = core->has_info && core->code > 0 && core_was_ended(core);
  report->point_count = 0;
  if (core_has_address(core)) (void)add(report, NULL, core->address);
  for (unsigned i = 0; i < report->said.count; i++) add_of_line(report, report->said.lines[i]);
  if (of_processor) add_registers(report, false);
  if (of_processor) add_registers(report, true);
}
