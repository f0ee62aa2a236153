/* inlined.c - see inlined.h.
 *
 * dwarf_getscopes reads a whole unit for each address, which takes seconds of a program that was optimised as one. Here a unit has a
 * table of its functions' code, and a function one of its inlined calls. Each is made when the first address lies in it, and kept.
 * A file may be damaged: reading ends after ENTRIES_MOST entries of all units. Then functions have no inlined calls, or names lack
 * their scopes.
 */
#define _GNU_SOURCE
#include "inlined.h"

#include <dwarf.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MOST = 10000000, DEPTH_MOST = 256, ORIGINS_MOST = 16 };

/* Code of a function of the unit, or of a call of the function. */
struct range {
  Dwarf_Addr low, high;
  size_t of; /* its number */
};

struct ranges {
  struct range *list;
  size_t count;
};

/* Of a function, by the entry that its inlined calls lead to. */
struct name {
  const void *origin;
  char *function, *linkage;
  const char *source;
};

struct call {
  Dwarf_Die die;
  size_t caller; /* the number of the call that it is in; NOBODY: the function itself */
};
#define NOBODY SIZE_MAX

struct function {
  Dwarf_Die die;
  bool read;
  struct call *calls; /* one behind that which it is in, and so are their ranges */
  size_t count;
  struct ranges ranges;
};

struct unit {
  struct unit *next;
  Dwarf_Die die;
  bool nested; /* functions in functions have been read, too */
  struct function *functions;
  size_t count;
  struct ranges ranges; /* by address */
  Dwarf_Files *files;   /* NULL: it has none */
  size_t file_count;
};

struct inlined {
  struct unit *units;
  void *names; /* a tree of struct name */
  long left;   /* entries that may be read */
  long left_for_names;
};

struct inlined *inlined_new(void) {
  struct inlined *inlined = calloc(1, sizeof *inlined);
  if (inlined != NULL) inlined->left = inlined->left_for_names = ENTRIES_MOST;
  return inlined;
}

/* The list with room for one more; NULL: out of memory. Doubled at each power of two. */
static void *grow(void *list, size_t count, size_t size) {
  if (count != 0 && (count & (count - 1)) != 0) return list;
  return reallocarray(list, count != 0 ? 2 * count : 1, size);
}

/* --- entries ------------------------------------------------------------------------------------------------ */

static bool first_in(struct inlined *inlined, Dwarf_Die *parent, Dwarf_Die *die) {
  return inlined->left > 0 && dwarf_child(parent, die) == 0 && inlined->left-- > 0;
}

/* One that lies before is of a damaged file. */
static bool go_on(struct inlined *inlined, Dwarf_Die *die) {
  const char *before = die->addr;
  return inlined->left > 0 && dwarf_siblingof(die, die) == 0 && (const char *)die->addr > before &&
         inlined->left-- > 0;
}

/* False: it has no code. */
static bool add_ranges(struct inlined *inlined, struct ranges *ranges, Dwarf_Die *die, size_t of) {
  Dwarf_Addr base = 0, low, high;
  ptrdiff_t at = 0;
  size_t before = ranges->count;
  while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0 && inlined->left-- > 0) {
    if (low >= high) continue;
    struct range *more = grow(ranges->list, ranges->count, sizeof *more);
    if (more == NULL) break;
    ranges->list = more;
    more[ranges->count++] = (struct range){low, high, of};
  }
  return ranges->count > before;
}

/* --- the functions of a unit ---------------------------------------------------------------------------------- */

static void add_function(struct inlined *inlined, struct unit *unit, Dwarf_Die *die) {
  if (!add_ranges(inlined, &unit->ranges, die, unit->count)) return; /* it is only declared */
  struct function *more = grow(unit->functions, unit->count, sizeof *more);
  if (more == NULL) {
    unit->ranges.count = 0;
    return;
  }
  unit->functions = more;
  more[unit->count++] = (struct function){.die = *die};
}

/* Most are those of the unit itself or of a namespace; all else is read where the code at an address is none of theirs. */
static void read_functions(struct inlined *inlined, struct unit *unit, Dwarf_Die *parent,
                           unsigned depth) {
  Dwarf_Die die;
  if (depth == DEPTH_MOST || !first_in(inlined, parent, &die)) return;
  do {
    int tag = dwarf_tag(&die);
    if (tag == DW_TAG_subprogram) add_function(inlined, unit, &die);
    if (unit->nested || tag == DW_TAG_namespace || tag == DW_TAG_module)
      read_functions(inlined, unit, &die, depth + 1);
  } while (go_on(inlined, &die));
}

static void forget_functions(struct unit *unit) {
  for (size_t i = 0; i < unit->count; i++) {
    free(unit->functions[i].calls);
    free(unit->functions[i].ranges.list);
  }
  free(unit->functions);
  free(unit->ranges.list);
  unit->functions = NULL;
  unit->ranges = (struct ranges){0};
  unit->count = 0;
}

static int by_low(const void *a, const void *b) {
  const struct range *left = a, *right = b;
  return left->low < right->low ? -1 : left->low > right->low;
}

static void fill(struct inlined *inlined, struct unit *unit, bool nested) {
  forget_functions(unit);
  unit->nested = nested;
  read_functions(inlined, unit, &unit->die, 0);
  if (unit->ranges.count > 0)
    qsort(unit->ranges.list, unit->ranges.count, sizeof *unit->ranges.list, by_low);
}

static struct unit *unit_of(struct inlined *inlined, const Dwarf_Die *die) {
  struct unit *unit = inlined->units;
  while (unit != NULL && unit->die.addr != die->addr) unit = unit->next;
  if (unit != NULL) return unit;
  unit = calloc(1, sizeof *unit);
  if (unit == NULL) return NULL;
  *unit = (struct unit){.next = inlined->units, .die = *die};
  inlined->units = unit;
  if (dwarf_getsrcfiles(&unit->die, &unit->files, &unit->file_count) != 0) unit->files = NULL;
  fill(inlined, unit, false);
  return unit;
}

static struct function *function_in(const struct unit *unit, Dwarf_Addr address) {
  size_t low = 0, high = unit->ranges.count; /* the last that begins at the address or before */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (unit->ranges.list[middle].low <= address) low = middle + 1;
    else high = middle;
  }
  return low > 0 && address < unit->ranges.list[low - 1].high
             ? &unit->functions[unit->ranges.list[low - 1].of]
             : NULL;
}

static struct function *find_function(struct inlined *inlined, struct unit *unit,
                                      Dwarf_Addr address) {
  struct function *function = function_in(unit, address);
  if (function != NULL || unit->nested) return function;
  fill(inlined, unit, true);
  return function_in(unit, address);
}

/* --- the inlined calls of a function ------------------------------------------------------------------------- */

static void read_calls(struct inlined *inlined, struct function *function, Dwarf_Die *parent,
                       size_t caller, unsigned depth) {
  Dwarf_Die die;
  if (depth == DEPTH_MOST || !first_in(inlined, parent, &die)) return;
  do {
    int tag = dwarf_tag(&die);
    if (tag == DW_TAG_inlined_subroutine) {
      size_t number = function->count;
      if (!add_ranges(inlined, &function->ranges, &die, number)) continue;
      struct call *more = grow(function->calls, number, sizeof *more);
      if (more == NULL) {
        function->ranges.count = 0;
        return;
      }
      function->calls = more;
      more[function->count++] = (struct call){die, caller};
      read_calls(inlined, function, &die, number, depth + 1);
    } else if (tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
               tag == DW_TAG_catch_block) {
      read_calls(inlined, function, &die, caller, depth + 1);
    }
  } while (go_on(inlined, &die));
}

/* --- names ------------------------------------------------------------------------------------------------------ */

/* Where the function is declared. */
static Dwarf_Die origin_of(Dwarf_Die die) {
  for (int i = 0; i < ORIGINS_MOST; i++) {
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    if (dwarf_attr(&die, DW_AT_abstract_origin, &attribute) == NULL &&
        dwarf_attr(&die, DW_AT_specification, &attribute) == NULL)
      break;
    if (dwarf_formref_die(&attribute, &next) == NULL) break;
    die = next;
  }
  return die;
}

static void write_scope(Dwarf_Die *scope, FILE *out) {
  const char *name = dwarf_diename(scope);
  switch (dwarf_tag(scope)) {
  case DW_TAG_namespace:
    fprintf(out, "%s::", name != NULL ? name : "(anonymous namespace)");
    break;
  case DW_TAG_class_type:
  case DW_TAG_structure_type:
  case DW_TAG_union_type:
    fprintf(out, "%s::", name != NULL ? name : "(anonymous)");
    break;
  case DW_TAG_module:
  case DW_TAG_subprogram:
    if (name != NULL) fprintf(out, "%s::", name);
    break;
  default:
    break;
  }
}

/* "(anonymous namespace)::Parser::": entries do not know what they are in, but it is what begins last before them. */
static void write_scopes(struct inlined *inlined, const Dwarf_Die *of, FILE *out) {
  Dwarf_Die parent, die, scope, copy = *of;
  if (dwarf_diecu(&copy, &parent, NULL, NULL) == NULL) return;
  for (unsigned depth = 0; depth < DEPTH_MOST && first_in(inlined, &parent, &die); depth++) {
    bool found = false;
    do {
      if ((const char *)die.addr > (const char *)of->addr) break;
      scope = die;
      found = true;
    } while (go_on(inlined, &die));
    if (!found || scope.addr == of->addr) return;
    write_scope(&scope, out);
    parent = scope;
  }
}

/* What has no name for the linker is named as others are when theirs is read. */
static char *qualified(struct inlined *inlined, const Dwarf_Die *origin, const char *name) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (out == NULL) return NULL;
  /* Without the scopes a name is worth something, without the calls it is nothing. */
  long left = inlined->left;
  inlined->left = inlined->left_for_names;
  write_scopes(inlined, origin, out);
  inlined->left_for_names = inlined->left;
  inlined->left = left;
  fputs(name, out);
  fclose(out);
  return text;
}

static int by_origin(const void *a, const void *b) {
  const char *left = ((const struct name *)a)->origin;
  const char *right = ((const struct name *)b)->origin;
  return left < right ? -1 : left > right;
}

static void free_name(void *entry) {
  struct name *name = entry;
  free(name->function);
  free(name->linkage);
  free(name);
}

/* NULL: out of memory. */
static const struct name *name_of(struct inlined *inlined, Dwarf_Die *die,
                                  struct demangler *demangler) {
  Dwarf_Attribute attribute;
  Dwarf_Die origin = origin_of(*die);
  struct name key = {.origin = origin.addr};
  struct name **found = tfind(&key, &inlined->names, by_origin);
  if (found != NULL) return *found;
  struct name *name = calloc(1, sizeof *name);
  if (name == NULL) return NULL;
  name->origin = origin.addr;
  name->source = dwarf_decl_file(die);
  const char *linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
  if (linkage == NULL)
    linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute));
  const char *plain = dwarf_diename(die);
  if (linkage != NULL) {
    name->linkage = strdup(linkage);
    name->function = strdup(demangle(demangler, linkage));
  } else if (plain != NULL) {
    name->function = qualified(inlined, &origin, plain);
  }
  if (tsearch(name, &inlined->names, by_origin) != NULL) return name;
  free_name(name);
  return NULL;
}

/* --- an address ------------------------------------------------------------------------------------------------- */

static struct inlined_call describe(struct inlined *inlined, const struct unit *unit,
                                    struct call *call, struct demangler *demangler) {
  struct inlined_call described = {0};
  Dwarf_Attribute attribute;
  Dwarf_Word file, line;
  const struct name *name = name_of(inlined, &call->die, demangler);
  if (name != NULL) {
    described.function = name->function;
    described.linkage = name->linkage != NULL ? name->linkage : name->function;
    described.source = name->source;
  }
  if (unit->files != NULL &&
      dwarf_formudata(dwarf_attr(&call->die, DW_AT_call_file, &attribute), &file) == 0 &&
      file < unit->file_count)
    described.file = dwarf_filesrc(unit->files, file, NULL, NULL);
  if (dwarf_formudata(dwarf_attr(&call->die, DW_AT_call_line, &attribute), &line) == 0 &&
      line <= INT32_MAX)
    described.line = (int)line;
  return described;
}

unsigned inlined_find(struct inlined *inlined, const Dwarf_Die *die, Dwarf_Addr address,
                      struct demangler *demangler, struct inlined_call calls[INLINED_MOST]) {
  unsigned count = 0;
  size_t caller = NOBODY;
  Dwarf_Die split;
  uint8_t type;
  if (inlined == NULL || inlined->left <= 0) return 0;
  if (dwarf_cu_info(die->cu, NULL, &type, NULL, &split, NULL, NULL, NULL) == 0 &&
      type == DW_UT_skeleton && split.addr != NULL)
    die = &split; /* what -gsplit-dwarf puts into another file */
  struct unit *unit = unit_of(inlined, die);
  struct function *function = unit != NULL ? find_function(inlined, unit, address) : NULL;
  if (function == NULL) return 0;
  if (!function->read) read_calls(inlined, function, &function->die, NOBODY, 0);
  function->read = true;
  for (size_t i = 0; i < function->ranges.count && count < INLINED_MOST; i++) {
    const struct range *range = &function->ranges.list[i];
    if (address < range->low || address >= range->high) continue;
    struct call *call = &function->calls[range->of];
    if (call->caller != caller) continue;
    calls[count++] = describe(inlined, unit, call, demangler);
    caller = range->of;
  }
  return count;
}

void inlined_free(struct inlined *inlined) {
  if (inlined == NULL) return;
  while (inlined->units != NULL) {
    struct unit *unit = inlined->units;
    inlined->units = unit->next;
    forget_functions(unit);
    free(unit);
  }
  tdestroy(inlined->names, free_name);
  free(inlined);
}
