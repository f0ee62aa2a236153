/* cfi.c - see cfi.h. */
#include "stack/cfi.h"

#if STACK_HAS_TABLES

#include <string.h>

/* --- bytes ------------------------------------------------------------------------------------------------ */

struct bytes {
  const uint8_t *at, *end;
  bool bad; /* something did not fit */
};

static uint64_t take(struct bytes *bytes, size_t size) {
  uint64_t value = 0;
  if ((size_t)(bytes->end - bytes->at) < size) {
    bytes->bad = true;
    bytes->at = bytes->end;
    return 0;
  }
  for (size_t i = 0; i < size; i++) value |= (uint64_t)bytes->at[i] << (8 * i);
  bytes->at += size;
  return value;
}

static uint64_t take_uleb(struct bytes *bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    uint64_t byte = take(bytes, 1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
}

static int64_t take_sleb(struct bytes *bytes) {
  uint64_t value = 0, byte;
  unsigned shift = 0;
  do {
    byte = take(bytes, 1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0);
  if (shift < 64 && (byte & 0x40) != 0) value |= ~UINT64_C(0) << shift;
  return (int64_t)value;
}

static void skip(struct bytes *bytes, uint64_t count) {
  if ((uint64_t)(bytes->end - bytes->at) >= count) {
    bytes->at += count;
    return;
  }
  bytes->bad = true;
  bytes->at = bytes->end;
}

/* DW_EH_PE_*: how a pointer is written. */
enum { PE_FORMAT = 0x0f, PE_PLACE = 0x70, PE_PCREL = 0x10, PE_INDIRECT = 0x80, PE_OMIT = 0xff };

static uint64_t take_encoded(struct bytes *bytes, uint8_t encoding, bool relative) {
  uintptr_t place = (uintptr_t)bytes->at;
  uint64_t value;
  switch (encoding & PE_FORMAT) {
  case 0x00:
    value = take(bytes, sizeof(void *));
    break;
  case 0x01:
    value = take_uleb(bytes);
    break;
  case 0x02:
    value = take(bytes, 2);
    break;
  case 0x03:
    value = take(bytes, 4);
    break;
  case 0x04:
    value = take(bytes, 8);
    break;
  case 0x09:
    value = (uint64_t)take_sleb(bytes);
    break;
  case 0x0a:
    value = (uint64_t)(int64_t)(int16_t)take(bytes, 2);
    break;
  case 0x0b:
    value = (uint64_t)(int64_t)(int32_t)take(bytes, 4);
    break;
  case 0x0c:
    value = take(bytes, 8);
    break;
  default:
    bytes->bad = true;
    return 0;
  }
  if (!relative) return value;
  if ((encoding & PE_PLACE) == PE_PCREL) return value + place;
  if ((encoding & (PE_PLACE | PE_INDIRECT)) != 0) bytes->bad = true;
  return value;
}

static void touch(const struct cfi_object *object, uintptr_t address) {
  if (object->touched != NULL) tables_touch(object->touched, object->start, object->end, address);
}

/* The entry (CIE or FDE) at an address: its bytes behind the length. */
static bool entry_at(const struct cfi_object *object, uintptr_t address, struct bytes *bytes) {
  if (address < object->start || address >= object->end) return false;
  touch(object, address);
  *bytes = (struct bytes){(const uint8_t *)address, (const uint8_t *)object->end, false};
  uint64_t length = take(bytes, 4);
  if (bytes->bad || length == 0 || length > (uint64_t)(bytes->end - bytes->at)) return false;
  bytes->end = bytes->at + length; /* 0xffffffff, the 64-bit form, is too long for any object */
  return true;
}

/* --- CIE and FDE -------------------------------------------------------------------------------------------- */

struct cie {
  uint64_t code_factor;
  int64_t data_factor;
  uint8_t encoding; /* of addresses in its FDEs */
  bool augmented, is_signal;
  struct bytes program;
};

static bool read_augmentation(struct cie *cie, const char *letters, struct bytes *bytes) {
  if (letters[0] == 0) return true;
  if (letters[0] != 'z') return false;
  cie->augmented = true;
  uint64_t length = take_uleb(bytes);
  struct bytes data = *bytes;
  skip(bytes, length);
  if (bytes->bad) return false;
  data.end = bytes->at;
  for (const char *letter = letters + 1; *letter != 0; letter++) {
    if (*letter == 'R') cie->encoding = (uint8_t)take(&data, 1);
    else if (*letter == 'L') (void)take(&data, 1);
    else if (*letter == 'P') (void)take_encoded(&data, (uint8_t)take(&data, 1), false);
    else if (*letter == 'S') cie->is_signal = true;
    else if (*letter != 'B') return true; /* the rest is not for us */
  }
  return !data.bad;
}

static bool read_cie(const struct cfi_object *object, uintptr_t address, struct cie *cie) {
  struct bytes bytes;
  if (!entry_at(object, address, &bytes)) return false;
  if (take(&bytes, 4) != 0) return false;
  uint64_t version = take(&bytes, 1);
  const char *letters = (const char *)bytes.at;
  while (!bytes.bad && take(&bytes, 1) != 0) continue;
  if (bytes.bad || (version != 1 && version != 3)) return false;
  *cie = (struct cie){.code_factor = take_uleb(&bytes)};
  cie->data_factor = take_sleb(&bytes);
  uint64_t return_register = version == 1 ? take(&bytes, 1) : take_uleb(&bytes);
  if (register_of_dwarf(return_register) != CPU_RETURN) return false;
  if (!read_augmentation(cie, letters, &bytes) || bytes.bad) return false;
  cie->program = bytes;
  return true;
}

/* The entry of the table whose code starts last before `code`: sorted pairs of 4 bytes, relative to the table. */
static uintptr_t find_fde(const struct cfi_object *object, uintptr_t code) {
  struct bytes bytes = {object->table, (const uint8_t *)object->end, false};
  if ((uintptr_t)object->table < object->start || (uintptr_t)object->table >= object->end) return 0;
  touch(object, (uintptr_t)object->table);
  uint64_t head = take(&bytes, 4); /* version, and the encodings of what follows */
  enum { VERSION = 1, COUNT_4 = 0x03, PAIRS_4 = 0x3b };
  if ((head & 0xff) != VERSION || (head >> 16 & 0xff) != COUNT_4 || head >> 24 != PAIRS_4) return 0;
  (void)take_encoded(&bytes, (uint8_t)(head >> 8), true);
  uint64_t count = take(&bytes, 4), low = 0, high = count;
  if (bytes.bad || count == 0 || count > (uint64_t)(bytes.end - bytes.at) / 8) return 0;
  uintptr_t base = (uintptr_t)object->table;
  while (high - low > 1) {
    uint64_t middle = (low + high) / 2;
    int32_t start;
    touch(object, (uintptr_t)bytes.at + middle * 8);
    memcpy(&start, bytes.at + middle * 8, 4);
    if (base + (uintptr_t)(intptr_t)start <= code) low = middle;
    else high = middle;
  }
  int32_t entry;
  memcpy(&entry, bytes.at + low * 8 + 4, 4);
  return base + (uintptr_t)(intptr_t)entry;
}

/* --- the program of a frame ------------------------------------------------------------------------------- */

/* Long functions of straight code (of GCC, that enters its builtins) have 5,000 steps. */
enum { REMEMBERED_MOST = 2, STEPS_MOST = 100000 };

struct machine {
  const struct cfi_object *object;
  const struct cie *cie;
  struct frame_rules now, initial, remembered[REMEMBERED_MOST];
  unsigned depth;
  uint64_t location, code; /* rules count up to the code's place */
  bool bad;
};

static void set(struct machine *machine, uint64_t number, enum rule_kind kind, int64_t offset) {
  int index = register_of_dwarf(number);
  if (index < 0) return;
  if (offset != (int32_t)offset) machine->bad = true;
  machine->now.registers[index] = (struct rule){.kind = (uint8_t)kind, .offset = (int32_t)offset};
}

static struct rule take_expression(const struct machine *machine, struct bytes *bytes,
                                   enum rule_kind kind) {
  uint64_t length = take_uleb(bytes), from_start = (uintptr_t)bytes->at - machine->object->start;
  struct rule rule = {.kind = (uint8_t)kind, .offset = (int32_t)from_start};
  if (length > UINT16_MAX || from_start > INT32_MAX) bytes->bad = true;
  rule.expression_bytes = (uint16_t)length;
  skip(bytes, length);
  return rule;
}

static void set_expression(struct machine *machine, struct bytes *bytes, enum rule_kind kind) {
  int index = register_of_dwarf(take_uleb(bytes));
  struct rule rule = take_expression(machine, bytes, kind);
  if (index >= 0) machine->now.registers[index] = rule;
}

static void set_cfa(struct machine *machine, uint64_t number, int64_t offset) {
  int index = register_of_dwarf(number);
  if (index < 0 || offset != (int32_t)offset) machine->bad = true;
  machine->now.cfa = (struct rule){.kind = RULE_VALUE, .offset = (int32_t)offset};
  machine->now.cfa_register = index < 0 ? 0 : (uint8_t)index;
}

static void move_cfa(struct machine *machine, int64_t offset) {
  if (machine->now.cfa.kind != RULE_VALUE || offset != (int32_t)offset) machine->bad = true;
  machine->now.cfa.offset = (int32_t)offset;
}

static void restore(struct machine *machine, uint64_t number) {
  int index = register_of_dwarf(number);
  if (index >= 0) machine->now.registers[index] = machine->initial.registers[index];
}

static void remember(struct machine *machine) {
  if (machine->depth == REMEMBERED_MOST) machine->bad = true;
  else machine->remembered[machine->depth++] = machine->now;
}

static void recall(struct machine *machine) {
  if (machine->depth == 0) machine->bad = true;
  else machine->now = machine->remembered[--machine->depth];
}

/* In tables with mistakes the product may have any size. */
static int64_t scaled(uint64_t number, int64_t factor) {
  return (int64_t)(number * (uint64_t)factor);
}

/* DW_CFA_* of the low six bits. False: the location is beyond the code. */
static bool step_extended(struct machine *machine, struct bytes *bytes, uint8_t code) {
  int64_t factor = machine->cie->data_factor;
  uint64_t number, advance = 0;
  switch (code) {
  case 0x00:
    break; /* nop */
  case 0x01:
    machine->location = take_encoded(bytes, machine->cie->encoding, true);
    break;
  case 0x02:
    advance = take(bytes, 1);
    break; /* advance_loc1 */
  case 0x03:
    advance = take(bytes, 2);
    break;
  case 0x04:
    advance = take(bytes, 4);
    break;
  case 0x05: /* offset_extended */
    number = take_uleb(bytes);
    set(machine, number, RULE_AT, scaled(take_uleb(bytes), factor));
    break;
  case 0x06:
    restore(machine, take_uleb(bytes));
    break;
  case 0x07:
    set(machine, take_uleb(bytes), RULE_UNDEFINED, 0);
    break;
  case 0x08:
    set(machine, take_uleb(bytes), RULE_SAME, 0);
    break;
  case 0x09: /* register */
    set(machine, take_uleb(bytes), RULE_UNDEFINED, 0);
    (void)take_uleb(bytes);
    break;
  case 0x0a:
    remember(machine);
    break;
  case 0x0b:
    recall(machine);
    break;
  case 0x0c: /* def_cfa */
    number = take_uleb(bytes);
    set_cfa(machine, number, (int64_t)take_uleb(bytes));
    break;
  case 0x0d:
    set_cfa(machine, take_uleb(bytes), machine->now.cfa.offset);
    break;
  case 0x0e:
    move_cfa(machine, (int64_t)take_uleb(bytes));
    break;
  case 0x0f:
    machine->now.cfa = take_expression(machine, bytes, RULE_VALUE_EXPR);
    break;
  case 0x10:
    set_expression(machine, bytes, RULE_AT_EXPR);
    break;
  case 0x11: /* offset_extended_sf */
    number = take_uleb(bytes);
    set(machine, number, RULE_AT, scaled((uint64_t)take_sleb(bytes), factor));
    break;
  case 0x12: /* def_cfa_sf */
    number = take_uleb(bytes);
    set_cfa(machine, number, scaled((uint64_t)take_sleb(bytes), factor));
    break;
  case 0x13:
    move_cfa(machine, scaled((uint64_t)take_sleb(bytes), factor));
    break;
  case 0x14: /* val_offset */
    number = take_uleb(bytes);
    set(machine, number, RULE_VALUE, scaled(take_uleb(bytes), factor));
    break;
  case 0x15:
    number = take_uleb(bytes);
    set(machine, number, RULE_VALUE, scaled((uint64_t)take_sleb(bytes), factor));
    break;
  case 0x16:
    set_expression(machine, bytes, RULE_VALUE_EXPR);
    break;
  case 0x2d:
    break; /* aarch64: return addresses are signed from here on */
  case 0x2e:
    (void)take_uleb(bytes);
    break; /* GNU_args_size */
  default:
    machine->bad = true;
    break;
  }
  machine->location += advance * machine->cie->code_factor;
  return machine->location <= machine->code;
}

static void run(struct machine *machine, struct bytes bytes) {
  for (unsigned steps = 0; bytes.at < bytes.end; steps++) {
    uint8_t code = (uint8_t)take(&bytes, 1), low = code & 0x3f;
    bool goes_on = true;
    if (code >> 6 == 1) machine->location += low * machine->cie->code_factor;
    else if (code >> 6 == 2)
      set(machine, low, RULE_AT, scaled(take_uleb(&bytes), machine->cie->data_factor));
    else if (code >> 6 == 3) restore(machine, low);
    else goes_on = step_extended(machine, &bytes, low);
    if (bytes.bad || steps == STEPS_MOST) machine->bad = true;
    if (machine->bad || !goes_on || machine->location > machine->code) return;
  }
}

bool cfi_find(const struct cfi_object *object, uintptr_t code, struct frame_rules *rules) {
  struct bytes fde;
  struct cie cie;
  uintptr_t address = find_fde(object, code);
  if (address == 0 || !entry_at(object, address, &fde)) return false;
  uintptr_t place = (uintptr_t)fde.at;
  uint64_t distance = take(&fde, 4);
  if (distance == 0 || !read_cie(object, place - (uintptr_t)distance, &cie)) return false;
  uint64_t start = take_encoded(&fde, cie.encoding, true);
  uint64_t length = take_encoded(&fde, cie.encoding, false);
  if (cie.augmented) skip(&fde, take_uleb(&fde));
  if (fde.bad || code - start >= length) return false;
  struct machine machine = {.object = object, .cie = &cie, .code = UINT64_MAX};
  run(&machine, cie.program);
  machine.initial = machine.now;
  machine.location = start;
  machine.code = code;
  if (!machine.bad) run(&machine, fde);
  if (machine.bad || machine.now.cfa.kind < RULE_VALUE) return false;
  *rules = machine.now;
  rules->is_signal = cie.is_signal;
  return true;
}

#endif

typedef int cfi_translation_unit_is_not_empty;
