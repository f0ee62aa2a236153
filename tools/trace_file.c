/* trace_file.c - see trace_file.h. */
#define _GNU_SOURCE
#include "trace_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

#include "cli.h"

enum { HEADER_BYTES = 16, HEAD_BYTES = 48, TEXT_LEVEL = 3 };

struct frame {
  ZSTD_CCtx *context;
  unsigned char raw[TRACE_COLUMN_BYTES(TRACE_EVENTS)];
  unsigned char head[HEAD_BYTES];
  size_t packed_size;
  unsigned char *packed;
};

/* --- CRC-32, sixteen bytes at a time ---------------------------------------------------------------------- */

enum { CRC_STEP = 16 };
static uint32_t crc_table[CRC_STEP][256];

static void crc_make_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
    crc_table[0][i] = crc;
  }
  for (int t = 1; t < CRC_STEP; t++)
    for (uint32_t i = 0; i < 256; i++)
      crc_table[t][i] = crc_table[t - 1][i] >> 8 ^ crc_table[0][crc_table[t - 1][i] & 255];
}

/* What eight bytes add that have `behind` bytes of their step behind them. */
static uint32_t crc_of_eight(uint64_t bytes, int behind) {
  uint32_t crc = 0;
  for (int i = 0; i < 8; i++) crc ^= crc_table[behind + 7 - i][bytes >> (8 * i) & 255];
  return crc;
}

static uint32_t crc32_of(const unsigned char *data, size_t size) {
  uint32_t crc = ~UINT32_C(0);
  for (; size >= CRC_STEP; data += CRC_STEP, size -= CRC_STEP) {
    uint64_t first, second;
    memcpy(&first, data, 8);
    memcpy(&second, data + 8, 8);
    crc = crc_of_eight(le64toh(first) ^ crc, 8) ^ crc_of_eight(le64toh(second), 0);
  }
  for (; size > 0; data++, size--) crc = crc >> 8 ^ crc_table[0][(crc ^ *data) & 255];
  return ~crc;
}

/* --- writing ----------------------------------------------------------------------------------------------- */

static void put(unsigned char *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out[i] = (unsigned char)(value >> (8 * i));
}

static bool cut_off(struct trace_file *file) {
  return ftruncate(file->file, (off_t)file->size) == 0 &&
         lseek(file->file, (off_t)file->size, SEEK_SET) >= 0;
}

const char *trace_write_error(int error) {
  return error == EFBIG ? "larger than the limit of file sizes (ulimit -f)" : strerror(error);
}

static bool append(struct trace_file *file, struct iovec *parts, int count) {
  size_t size = 0;
  for (int i = 0; i < count; i++) size += parts[i].iov_len;
  while (count > 0) {
    ssize_t written = writev(file->file, parts, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      file->error = written < 0 ? errno : EIO;
      complain("%s: cannot write: %s; recording ends", file->path, trace_write_error(file->error));
      cut_off(file);
      return false;
    }
    size_t rest = (size_t)written;
    for (; count > 0 && rest >= parts->iov_len; parts++, count--) rest -= parts->iov_len;
    if (count == 0) break;
    parts->iov_base = (char *)parts->iov_base + rest;
    parts->iov_len -= rest;
  }
  file->size += size;
  return true;
}

struct frame_head {
  enum trace_frame kind;
  uint32_t thread, count;
  uint64_t stamp, address;
  int level;
};

static bool append_packed(struct trace_file *file, const struct frame_head *head, size_t raw_size,
                          size_t size) {
  static const unsigned char magic[4] = {'H', 'T', 'F', '1'};
  struct frame *frame = file->frame;
  unsigned char *out = frame->head;
  memset(out, 0, HEAD_BYTES);
  memcpy(out, magic, sizeof magic);
  put(out + 4, head->kind, 2);
  put(out + 8, head->thread, 4);
  put(out + 12, head->count, 4);
  put(out + 16, raw_size, 4);
  put(out + 20, size, 4);
  put(out + 24, head->stamp, 8);
  put(out + 32, head->address, 8);
  put(out + 40, crc32_of(frame->packed, size), 4);
  put(out + 44, crc32_of(out, 44), 4);
  struct iovec parts[2] = {{out, HEAD_BYTES}, {frame->packed, size}};
  return append(file, parts, 2);
}

static bool make_room(struct frame *frame, size_t room) {
  if (room <= frame->packed_size) return true;
  unsigned char *larger = realloc(frame->packed, room);
  if (larger == NULL) {
    complain("%s; recording ends", strerror(errno));
    return false;
  }
  frame->packed = larger;
  frame->packed_size = room;
  return true;
}

static bool append_frame(struct trace_file *file, const struct frame_head *head, const void *raw,
                         size_t raw_size) {
  struct frame *frame = file->frame;
  if (!make_room(frame, ZSTD_compressBound(raw_size))) return false;
  size_t size = ZSTD_compressCCtx(frame->context, frame->packed, frame->packed_size, raw, raw_size,
                                  head->level);
  if (!ZSTD_isError(size)) return append_packed(file, head, raw_size, size);
  complain("libzstd: %s; recording ends", ZSTD_getErrorName(size));
  return false;
}

static bool append_text(struct trace_file *file, enum trace_frame kind, const char *text) {
  struct frame_head head = {.kind = kind, .level = TEXT_LEVEL};
  return append_frame(file, &head, text, strlen(text));
}

/* --- the interface ------------------------------------------------------------------------------------------- */

/* Once: all files are written by one thread. */
static bool make_buffers(struct trace_file *file) {
  static struct frame *frame;
  if (frame == NULL) frame = calloc(1, sizeof *frame);
  if (frame != NULL && frame->context == NULL) frame->context = ZSTD_createCCtx();
  file->frame = frame;
  if (frame != NULL && frame->context != NULL) return true;
  complain("%s", strerror(ENOMEM));
  return false;
}

/* A trace is cut off where it ends early or begins anew. Complains. */
static bool is_regular(const char *path, const struct stat *status) {
  if (S_ISREG(status->st_mode)) return true;
  complain("%s: %s is not a regular file, and a trace needs one", path,
           S_ISFIFO(status->st_mode)  ? "a pipe"
           : S_ISDIR(status->st_mode) ? "a directory"
                                      : "it");
  return false;
}

bool trace_file_make(struct trace_file *file, const char *path) {
  *file = (struct trace_file){.path = path, .is_new = true};
  file->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return file->file >= 0 && make_buffers(file);
}

bool trace_file_open(struct trace_file *file, const char *path, bool force) {
  struct stat status;
  *file = (struct trace_file){.path = path};
  crc_make_table();
  file->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  file->is_new = file->file >= 0;
  if (file->file < 0 && errno == EEXIST) {
    /* Before it is opened, which the reader of a pipe would see. */
    if (stat(path, &status) == 0 && !is_regular(path, &status)) return false;
    errno = EEXIST;
    if (force) file->file = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  }
  if (file->file < 0) {
    complain("%s: %s", path, errno == EEXIST ? "exists; -f overwrites it" : strerror(errno));
    return false;
  }
  if (fstat(file->file, &status) == 0 && !is_regular(path, &status)) {
    close(file->file);
    return false;
  }
  return make_buffers(file);
}

bool trace_file_begin(struct trace_file *file, const char *information) {
  static unsigned char header[HEADER_BYTES] = {0x89, 'H', 'T', 'R', 'C', '\r', '\n', 0x1A, 1};
  file->size = 0;
  if (!cut_off(file)) {
    complain("%s: %s", file->path, strerror(errno));
    return false;
  }
  struct iovec part = {header, sizeof header};
  if (!append(file, &part, 1) || !append_text(file, TRACE_FRAME_INFORMATION, information))
    return false;
  file->body = file->size;
  return true;
}

bool trace_file_restart(struct trace_file *file) {
  file->size = file->body;
  if (cut_off(file)) return true;
  complain("%s: %s", file->path, strerror(errno));
  return false;
}

bool trace_file_events(struct trace_file *file, uint32_t thread, const struct trace_event *events,
                       uint32_t count, int level) {
  struct frame_head head = {
      .kind = TRACE_FRAME_EVENTS,
      .thread = thread,
      .count = count,
      .stamp = events[0].stamp,
      .address = trace_address(&events[0]),
      .level = level,
  };
  if (level == TRACE_QUICKLY && count < TRACE_PACK_LEAST) head.level = 1;
  if (head.level == TRACE_QUICKLY) {
    if (!make_room(file->frame, TRACE_PACKED_BYTES)) return false;
    size_t size = trace_pack(file->frame->packed, events, count, head.stamp, head.address);
    return append_packed(file, &head, TRACE_COLUMN_BYTES(count), size);
  }
  trace_columns(file->frame->raw, events, count, head.stamp, head.address);
  return append_frame(file, &head, file->frame->raw, TRACE_COLUMN_BYTES(count));
}

bool trace_file_end(struct trace_file *file, const char *end) {
  return append_text(file, TRACE_FRAME_END, end);
}

void trace_file_discard(struct trace_file *file) {
  close(file->file);
  if (file->is_new) unlink(file->path);
}
