/* The messages of rpc_server: a length of four bytes, then
 *   request   number (8 bytes), method (1), count of fields (2), the fields
 *   answer    number (8), whether it went well (1), count of fields (2), the fields
 * A field is the length of its name (2), its name, the length of its value (4), its value. Numbers lie as they do in
 * memory: both sides are on one machine. */
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace rpc {

enum Method : uint8_t { PUT, GET, REPORT, NOTE, METHODS };
/* A message that says it is larger is none. */
constexpr uint32_t MOST_BYTES = 1 << 24;

template <typename Number> void put_number(std::string &out, Number number) {
  out.append(reinterpret_cast<const char *>(&number), sizeof number);
}

inline void put_field(std::string &out, const std::string &name, const std::string &value) {
  put_number(out, static_cast<uint16_t>(name.size()));
  out += name;
  put_number(out, static_cast<uint32_t>(value.size()));
  out += value;
}

/* Reads a message's bytes; `good` turns false at a message that ends too early. */
class Reader {
public:
  Reader(const char *bytes, size_t size) : at(bytes), end(bytes + size) {}
  template <typename Number> Number number() {
    Number found = 0;
    if (static_cast<size_t>(end - at) < sizeof found) good = false;
    else {
      memcpy(&found, at, sizeof found);
      at += sizeof found;
    }
    return found;
  }
  std::string text(size_t size) {
    if (static_cast<size_t>(end - at) < size) {
      good = false;
      return {};
    }
    at += size;
    return {at - size, size};
  }
  bool good = true;

private:
  const char *at;
  const char *end;
};

} // namespace rpc
