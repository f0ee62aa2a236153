/* What the servers and the load generator of this folder share: numbers of the command line, sockets on the
 * loopback interface, and how a load says what it measured. */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace servers {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] inline void fail(const std::string &what) {
  fprintf(stderr, "%s\n", what.c_str());
  exit(2);
}

/* A whole number from `least` to `most`, or the end of the program with a message. */
inline long number_of(const char *name, const char *text, long least, long most) {
  char *end = nullptr;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != 0 || errno != 0 || value < least || value > most)
    fail(std::string(name) + " " + text + ": accepted is a number from " + std::to_string(least) +
         " to " + std::to_string(most));
  return value;
}

inline sockaddr_in loopback(long port) {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

/* A socket that listens on 127.0.0.1. */
inline int listen_on(long port) {
  const int on = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(on, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in at = loopback(port);
  if (on < 0 || bind(on, reinterpret_cast<const sockaddr *>(&at), sizeof at) != 0 ||
      listen(on, 1024) != 0)
    fail("port " + std::to_string(port) + ": " + strerror(errno));
  return on;
}

inline void answer_at_once(int connection) {
  const int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* All of it; false when the other side is gone. */
inline bool send_all(int connection, const char *bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(connection, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

inline bool receive_all(int connection, char *bytes, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(connection, bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

/* A small generator with the same numbers everywhere (xorshift64*). */
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
  }
  /* From `least` to `most`, both included. */
  uint64_t between(uint64_t least, uint64_t most) { return least + next() % (most - least + 1); }

private:
  uint64_t state;
};

/* The lines that the lab reads; `latencies` in seconds, one for each answered request. */
inline std::string outcome(std::vector<float> &latencies, uint64_t failed, double seconds) {
  std::string text = "requests: " + std::to_string(latencies.size()) +
                     "\nfailed: " + std::to_string(failed) + "\n";
  char line[96];
  snprintf(line, sizeof line, "throughput: %.3f requests/s\n",
           static_cast<double>(latencies.size()) / seconds);
  text += line;
  if (latencies.empty()) return text;
  std::sort(latencies.begin(), latencies.end());
  const struct {
    const char *name;
    double share;
  } shown[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
  for (const auto &of : shown) {
    const double last = static_cast<double>(latencies.size() - 1);
    const size_t at = static_cast<size_t>(of.share * last);
    snprintf(line, sizeof line, "latency %s %.6f ms\n", of.name,
             static_cast<double>(latencies[at]) * 1000);
    text += line;
  }
  return text;
}

} // namespace servers
