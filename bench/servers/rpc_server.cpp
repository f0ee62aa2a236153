/* rpc_server PORT THREADS: a server as many services are written. Each thread waits for a connection, reads requests
 * from it into objects, and answers with objects made for that: strings, hash tables, ordered maps, shared pointers.
 * What a request stores lives in a table of sessions that all threads share; the oldest of a shard is dropped when the
 * shard is full, so much of what one thread allocates another one frees.
 *
 *   PUT     stores the fields as the session `session`, and drops what was there
 *   GET     all fields of a session
 *   REPORT  sums of the sessions that the request names, sorted by name
 *   NOTE    keeps a line in the thread's own log of the last 256
 *
 * It answers until SIGTERM, which ends it at once. */
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common.hpp"
#include "rpc.hpp"

namespace {

using Fields = std::unordered_map<std::string, std::string>;

constexpr size_t SHARDS = 64;
constexpr size_t MOST_SESSIONS = 512; /* of a shard */
constexpr size_t MOST_LINES = 256;

struct Request {
  uint64_t number = 0;
  uint8_t method = 0;
  Fields fields;
};

struct Answer {
  uint64_t number = 0;
  bool good = true;
  std::map<std::string, std::string> fields;
};

struct Session {
  std::string name;
  Fields fields;
  std::vector<std::shared_ptr<const std::string>> history;
};

struct Shard {
  std::mutex mutex;
  std::list<std::string> order; /* the oldest first */
  struct Place {
    std::shared_ptr<const Session> session;
    std::list<std::string>::iterator at;
  };
  std::unordered_map<std::string, Place> sessions;
};

Shard shards[SHARDS];

Shard &shard_of(const std::string &name) { return shards[std::hash<std::string>{}(name) % SHARDS]; }

std::shared_ptr<const Session> find(const std::string &name) {
  Shard &shard = shard_of(name);
  const std::lock_guard<std::mutex> locked(shard.mutex);
  const auto found = shard.sessions.find(name);
  return found == shard.sessions.end() ? nullptr : found->second.session;
}

void keep(std::shared_ptr<const Session> session) {
  Shard &shard = shard_of(session->name);
  std::shared_ptr<const Session> dropped; /* ends when nobody waits for the shard any more */
  const std::lock_guard<std::mutex> locked(shard.mutex);
  const auto found = shard.sessions.find(session->name);
  if (found != shard.sessions.end()) {
    dropped = std::exchange(found->second.session, std::move(session));
    shard.order.splice(shard.order.end(), shard.order, found->second.at);
    return;
  }
  if (shard.sessions.size() >= MOST_SESSIONS) {
    const auto oldest = shard.sessions.find(shard.order.front());
    dropped = std::move(oldest->second.session);
    shard.sessions.erase(oldest);
    shard.order.pop_front();
  }
  shard.order.push_back(session->name);
  const std::string &name = shard.order.back();
  shard.sessions.emplace(name, Shard::Place{std::move(session), std::prev(shard.order.end())});
}

std::unique_ptr<Request> parse(const std::string &bytes) {
  rpc::Reader reader(bytes.data(), bytes.size());
  auto request = std::make_unique<Request>();
  request->number = reader.number<uint64_t>();
  request->method = reader.number<uint8_t>();
  const uint16_t count = reader.number<uint16_t>();
  for (uint16_t i = 0; i < count && reader.good; i++) {
    std::string name = reader.text(reader.number<uint16_t>());
    request->fields[std::move(name)] = reader.text(reader.number<uint32_t>());
  }
  return reader.good && request->method < rpc::METHODS ? std::move(request) : nullptr;
}

std::string encode(const Answer &answer) {
  std::string body;
  rpc::put_number(body, answer.number);
  rpc::put_number(body, static_cast<uint8_t>(answer.good));
  rpc::put_number(body, static_cast<uint16_t>(answer.fields.size()));
  for (const auto &[name, value] : answer.fields) rpc::put_field(body, name, value);
  std::string out;
  rpc::put_number(out, static_cast<uint32_t>(body.size()));
  return out + body;
}

void put(Request &request, Answer &answer) {
  auto session = std::make_shared<Session>();
  session->name = request.fields["session"];
  if (const auto before = find(session->name)) {
    const size_t last = before->history.size();
    for (size_t i = last > 7 ? last - 7 : 0; i < last; i++)
      session->history.push_back(before->history[i]);
  }
  session->fields = std::move(request.fields);
  session->history.push_back(
      std::make_shared<const std::string>("put by request " + std::to_string(request.number)));
  answer.fields["stored"] = std::to_string(session->fields.size());
  keep(std::move(session));
}

void get(Request &request, Answer &answer) {
  const auto session = find(request.fields["session"]);
  answer.good = session != nullptr;
  if (session == nullptr) return;
  answer.fields.insert(session->fields.begin(), session->fields.end());
  for (const auto &line : session->history) answer.fields["history"] += *line + "\n";
}

void report(Request &request, Answer &answer) {
  std::map<std::string, std::vector<std::string>> lines;
  for (const auto &[name, value] : request.fields) {
    const auto session = find(value);
    if (session == nullptr) continue;
    for (const auto &[field, content] : session->fields)
      lines[field].push_back(session->name + ": " + std::to_string(content.size()) + " bytes");
  }
  for (auto &[field, of] : lines) {
    std::string text;
    for (const auto &line : of) text += line + "\n";
    answer.fields[field] = std::move(text);
  }
}

void answer_all(int connection, std::list<std::string> &log) {
  std::string bytes;
  for (;;) {
    uint32_t size = 0;
    if (!servers::receive_all(connection, reinterpret_cast<char *>(&size), sizeof size)) return;
    if (size > rpc::MOST_BYTES) return;
    bytes = std::string(size, 0);
    if (!servers::receive_all(connection, bytes.data(), size)) return;
    const auto request = parse(bytes);
    if (request == nullptr) return;
    Answer answer;
    answer.number = request->number;
    switch (request->method) {
    case rpc::PUT:
      put(*request, answer);
      break;
    case rpc::GET:
      get(*request, answer);
      break;
    case rpc::REPORT:
      report(*request, answer);
      break;
    default:
      log.push_back(request->fields["line"]);
      if (log.size() > MOST_LINES) log.pop_front();
      answer.fields["lines"] = std::to_string(log.size());
    }
    const std::string out = encode(answer);
    if (!servers::send_all(connection, out.data(), out.size())) return;
  }
}

void serve(int listener) {
  std::list<std::string> log;
  for (;;) {
    const int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      servers::fail(std::string("accept: ") + strerror(errno));
    }
    servers::answer_at_once(connection);
    answer_all(connection, log);
    close(connection);
  }
}

} // namespace

int main(int count, char **words) {
  if (count != 3) servers::fail("usage: rpc_server PORT THREADS");
  const long port = servers::number_of("PORT", words[1], 1, 65535);
  const long threads = servers::number_of("THREADS", words[2], 1, 4096);
  const int listener = servers::listen_on(port);
  for (long i = 1; i < threads; i++) std::thread(serve, listener).detach();
  serve(listener);
}
