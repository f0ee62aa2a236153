/* load PROTOCOL PORT [--connections N] [--requests N] [--seconds S] [--keys N] [--bytes N] [--path P]: puts load on a server on
 * 127.0.0.1 and says how many requests it answered, how many failed, and their latencies.
 *
 *   rpc        rpc_server: 35% PUT, 45% GET, 10% REPORT, 10% NOTE
 *   memcached  the text protocol of memcached: 30% set, 65% get, 5% delete
 *   http       GET of the path P with ?KEY behind it, answers may be compressed
 *   ask        sends the line `run REQUESTS SECONDS KEYS BYTES`, and prints what the server says of it
 *
 * Each connection has one request under way. Keys are drawn from --keys, small ones more often; values are 1 to --bytes
 * bytes, most of them short. It ends after --requests answers or --seconds, whichever comes first, and then has
 * every request that is under way answered. */
#include <fcntl.h>
#include <sys/epoll.h>

#include <cctype>
#include <iterator>

#include "common.hpp"
#include "rpc.hpp"

namespace {

struct Settings {
  std::string protocol;
  long port = 0;
  long connections = 50;
  long requests = 100000;
  long seconds = 60;
  long keys = 20000;
  long bytes = 4096;
  std::string path = "/";
};

constexpr double GRACE = 10; /* seconds for the answers that are still to come in the end */

class Load {
public:
  explicit Load(const Settings &wanted) : settings(wanted), random(1) {}

  uint64_t key() {
    const auto keys = static_cast<uint64_t>(settings.keys);
    return std::min(random.between(0, keys - 1), random.between(0, keys - 1));
  }
  size_t size() {
    const auto most = static_cast<uint64_t>(settings.bytes);
    const uint64_t shift = random.between(0, 6);
    return random.between(1, std::max<uint64_t>(1, most >> shift));
  }

  std::string rpc_request() {
    const uint64_t chance = random.between(0, 99);
    const rpc::Method method = chance < 35   ? rpc::PUT
                               : chance < 80 ? rpc::GET
                               : chance < 90 ? rpc::REPORT
                                             : rpc::NOTE;
    const uint64_t fields = method == rpc::PUT      ? random.between(2, 12)
                            : method == rpc::REPORT ? random.between(2, 16)
                                                    : 1;
    std::string body;
    rpc::put_number(body, random.next());
    rpc::put_number(body, static_cast<uint8_t>(method));
    rpc::put_number(body, static_cast<uint16_t>(fields));
    for (uint64_t i = 0; i < fields; i++) {
      const std::string name = method == rpc::NOTE ? "line"
                               : i == 0            ? "session"
                                                   : "field" + std::to_string(i);
      const bool names = method == rpc::REPORT || (i == 0 && method != rpc::NOTE);
      rpc::put_field(body, name,
                     names ? "session-" + std::to_string(key()) : std::string(size(), 'v'));
    }
    std::string out;
    rpc::put_number(out, static_cast<uint32_t>(body.size()));
    return out + body;
  }

  std::string memcached_request() {
    const uint64_t chance = random.between(0, 99);
    const std::string name = "key-" + std::to_string(key());
    if (chance < 65) return "get " + name + "\r\n";
    if (chance < 70) return "delete " + name + "\r\n";
    const std::string value(size(), 'v');
    return "set " + name + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }

  std::string http_request() {
    return "GET " + settings.path + "?" + std::to_string(key()) +
           " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\r\n";
  }

  std::string request() {
    if (settings.protocol == "http") return http_request();
    return settings.protocol == "rpc" ? rpc_request() : memcached_request();
  }

private:
  const Settings &settings;
  servers::Random random;
};

/* How many bytes of `text` are the first answer; 0: it is not complete. */
size_t rpc_answer(const std::string &text) {
  uint32_t size = 0;
  if (text.size() < sizeof size) return 0;
  memcpy(&size, text.data(), sizeof size);
  return text.size() >= sizeof size + size ? sizeof size + size : 0;
}

size_t memcached_answer(const std::string &text, bool &failed) {
  const size_t line = text.find("\r\n");
  if (line == std::string::npos) return 0;
  failed = text.compare(0, 12, "SERVER_ERROR") == 0 || text.compare(0, 5, "ERROR") == 0 ||
           text.compare(0, 12, "CLIENT_ERROR") == 0;
  if (text.compare(0, 6, "VALUE ") != 0) return line + 2;
  const size_t bytes = strtoul(text.c_str() + text.rfind(' ', line), nullptr, 10);
  const size_t whole = line + 2 + bytes + 2 + strlen("END\r\n");
  return text.size() >= whole ? whole : 0;
}

/* With a length, or in pieces that each say their own; `failed`: its status is not 200. */
size_t http_answer(const std::string &text, bool &failed) {
  const size_t head = text.find("\r\n\r\n");
  if (head == std::string::npos) return 0;
  failed = text.compare(0, 12, "HTTP/1.1 200") != 0;
  std::string names = text.substr(0, head + 2);
  std::transform(names.begin(), names.end(), names.begin(), ::tolower);
  size_t at = head + 4;
  const size_t length = names.find("\r\ncontent-length:");
  if (length != std::string::npos) {
    at += strtoul(names.c_str() + length + strlen("\r\ncontent-length:"), nullptr, 10);
    return text.size() >= at ? at : 0;
  }
  if (names.find("\r\ntransfer-encoding: chunked") == std::string::npos) {
    failed = true;
    return at;
  }
  for (;;) {
    const size_t line = text.find("\r\n", at);
    if (line == std::string::npos) return 0;
    const size_t piece = strtoul(text.c_str() + at, nullptr, 16);
    at = line + 2 + piece + 2;
    if (text.size() < at) return 0;
    if (piece == 0) return at;
  }
}

struct Connection {
  int socket = -1;
  std::string answer;
  std::string left; /* of the request, to be sent yet */
  servers::Clock::time_point since;
};

int connect_to(long port) {
  const int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in at = servers::loopback(port);
  if (to < 0 || connect(to, reinterpret_cast<const sockaddr *>(&at), sizeof at) != 0)
    servers::fail("127.0.0.1:" + std::to_string(port) + ": " + strerror(errno));
  servers::answer_at_once(to);
  return to;
}

int ask(const Settings &settings) {
  const int to = connect_to(settings.port);
  const std::string line = "run " + std::to_string(settings.requests) + " " +
                           std::to_string(settings.seconds) + " " + std::to_string(settings.keys) +
                           " " + std::to_string(settings.bytes) + "\n";
  if (!servers::send_all(to, line.data(), line.size())) servers::fail("the server is gone");
  char bytes[4096];
  ssize_t got;
  size_t all = 0;
  while ((got = recv(to, bytes, sizeof bytes, 0)) > 0) {
    fwrite(bytes, 1, static_cast<size_t>(got), stdout);
    all += static_cast<size_t>(got);
  }
  close(to);
  if (all == 0) servers::fail("the server said nothing");
  return 0;
}

class Runner {
public:
  explicit Runner(const Settings &wanted)
      : settings(wanted), load(wanted), connections(static_cast<size_t>(wanted.connections)),
        poll(epoll_create1(EPOLL_CLOEXEC)) {
    latencies.reserve(static_cast<size_t>(settings.requests));
    for (Connection &one : connections) {
      one.socket = connect_to(settings.port);
      fcntl(one.socket, F_SETFL, O_NONBLOCK);
      epoll_event event = {};
      event.events = EPOLLIN;
      event.data.ptr = &one;
      epoll_ctl(poll, EPOLL_CTL_ADD, one.socket, &event);
    }
  }

  int run() {
    start = servers::Clock::now();
    for (Connection &one : connections) next(one);
    epoll_event events[256];
    while (under_way > 0) {
      const double passed = servers::seconds_since(start);
      if (passed > static_cast<double>(settings.seconds) + GRACE)
        servers::fail(std::to_string(under_way) + " requests were not answered");
      const int count = epoll_wait(poll, events, 256, 100);
      for (int i = 0; i < count; i++)
        handle(*static_cast<Connection *>(events[i].data.ptr), events[i].events);
    }
    const std::string said = servers::outcome(latencies, failed, servers::seconds_since(start));
    printf("load: %s\n%s", settings.protocol.c_str(), said.c_str());
    return 0;
  }

private:
  void watch(Connection &one) const {
    epoll_event event = {};
    event.events = one.left.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
    event.data.ptr = &one;
    epoll_ctl(poll, EPOLL_CTL_MOD, one.socket, &event);
  }

  /* As much of the request as the socket takes; the rest when it takes more. */
  void send_some(Connection &one, bool was_watched) {
    const ssize_t sent = send(one.socket, one.left.data(), one.left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) gone();
    if (sent > 0) one.left.erase(0, static_cast<size_t>(sent));
    if (!one.left.empty() || was_watched) watch(one);
  }

  void next(Connection &one) {
    if (sent_requests >= settings.requests ||
        servers::seconds_since(start) >= static_cast<double>(settings.seconds))
      return;
    sent_requests++;
    under_way++;
    one.left = load.request();
    one.since = servers::Clock::now();
    send_some(one, false);
  }

  void handle(Connection &one, uint32_t what) {
    if ((what & EPOLLOUT) != 0) send_some(one, true);
    if ((what & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0) return;
    char bytes[65536];
    const ssize_t got = recv(one.socket, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) gone();
    one.answer.append(bytes, static_cast<size_t>(got));
    bool bad = false;
    const size_t whole = settings.protocol == "rpc"    ? rpc_answer(one.answer)
                         : settings.protocol == "http" ? http_answer(one.answer, bad)
                                                       : memcached_answer(one.answer, bad);
    if (whole == 0) return;
    one.answer.erase(0, whole);
    under_way--;
    if (bad) failed++;
    else latencies.push_back(static_cast<float>(servers::seconds_since(one.since)));
    next(one);
  }

  [[noreturn]] static void gone() { servers::fail("the server closed a connection"); }

  const Settings &settings;
  Load load;
  std::vector<Connection> connections;
  int poll;
  std::vector<float> latencies;
  servers::Clock::time_point start;
  long sent_requests = 0;
  long under_way = 0;
  uint64_t failed = 0;
};

Settings parse(int count, char **words) {
  static const char usage[] =
      "usage: load rpc|memcached|http|ask PORT [--connections N] [--requests N] [--seconds S]"
      " [--keys N] [--bytes N] [--path P]";
  Settings settings;
  if (count < 3 || count % 2 == 0) servers::fail(usage);
  settings.protocol = words[1];
  static const char *const known[] = {"rpc", "memcached", "http", "ask"};
  if (std::find(std::begin(known), std::end(known), settings.protocol) == std::end(known))
    servers::fail(usage);
  settings.port = servers::number_of("PORT", words[2], 1, 65535);
  for (int i = 3; i < count; i += 2) {
    const std::string name = words[i];
    if (name == "--connections")
      settings.connections = servers::number_of(words[i], words[i + 1], 1, 10000);
    else if (name == "--requests")
      settings.requests = servers::number_of(words[i], words[i + 1], 1, 100000000);
    else if (name == "--seconds")
      settings.seconds = servers::number_of(words[i], words[i + 1], 1, 86400);
    else if (name == "--keys")
      settings.keys = servers::number_of(words[i], words[i + 1], 1, 1000000000);
    else if (name == "--bytes")
      settings.bytes = servers::number_of(words[i], words[i + 1], 1, 1 << 20);
    else if (name == "--path") settings.path = words[i + 1];
    else servers::fail(usage);
  }
  return settings;
}

} // namespace

int main(int count, char **words) {
  const Settings settings = parse(count, words);
  return settings.protocol == "ask" ? ask(settings) : Runner(settings).run();
}
