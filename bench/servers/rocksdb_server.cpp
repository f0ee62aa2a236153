/* rocksdb_server PORT DIRECTORY THREADS: a database of RocksDB in a process that is asked for its load: a connection
 * sends the line `run REQUESTS SECONDS KEYS BYTES`, THREADS threads then make so many requests altogether (45% Put, 45%
 * Get, 5% Delete, 5% a scan of 20 keys), and the answer says how long they took. The database stays open until SIGTERM. */
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "common.hpp"

namespace {

struct Wanted {
  long requests = 0;
  long seconds = 0;
  long keys = 0;
  long bytes = 0;
};

class Work {
public:
  Work(rocksdb::DB &opened, const Wanted &asked) : db(opened), wanted(asked) {}

  std::string run(long threads) {
    std::vector<std::thread> under_way;
    const auto start = servers::Clock::now();
    for (long i = 0; i < threads; i++)
      under_way.emplace_back([this, i, start] { requests(static_cast<uint64_t>(i + 1), start); });
    for (std::thread &one : under_way) one.join();
    return servers::outcome(latencies, failed, servers::seconds_since(start));
  }

private:
  bool request(servers::Random &random) {
    char name[32];
    snprintf(
        name, sizeof name, "key-%012llu",
        static_cast<unsigned long long>(random.between(0, static_cast<uint64_t>(wanted.keys) - 1)));
    const uint64_t chance = random.between(0, 99);
    const auto most = static_cast<uint64_t>(wanted.bytes);
    if (chance < 45) {
      const std::string value(random.between(1, most), static_cast<char>('a' + chance % 26));
      return db.Put({}, name, value).ok();
    }
    if (chance < 90) {
      std::string value;
      const rocksdb::Status found = db.Get({}, name, &value);
      return found.ok() || found.IsNotFound();
    }
    if (chance < 95) return db.Delete({}, name).ok();
    const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
    size_t bytes = 0;
    int left = 20;
    for (at->Seek(name); at->Valid() && left > 0; at->Next(), left--) bytes += at->value().size();
    return at->status().ok() && bytes < static_cast<size_t>(-1);
  }

  void requests(uint64_t seed, servers::Clock::time_point start) {
    servers::Random random(seed);
    std::vector<float> own;
    uint64_t bad = 0;
    while (taken.fetch_add(1) < wanted.requests &&
           servers::seconds_since(start) < static_cast<double>(wanted.seconds)) {
      const auto since = servers::Clock::now();
      if (request(random)) own.push_back(static_cast<float>(servers::seconds_since(since)));
      else bad++;
    }
    const std::lock_guard<std::mutex> locked(mutex);
    latencies.insert(latencies.end(), own.begin(), own.end());
    failed += bad;
  }

  rocksdb::DB &db;
  const Wanted &wanted;
  std::atomic<long> taken{0};
  std::mutex mutex;
  std::vector<float> latencies;
  uint64_t failed = 0;
};

std::unique_ptr<rocksdb::DB> open(const char *directory) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 8 << 20;
  options.max_background_jobs = 4;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(32 << 20);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB *db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(options, directory, &db);
  if (!opened.ok()) servers::fail(std::string(directory) + ": " + opened.ToString());
  return std::unique_ptr<rocksdb::DB>(db);
}

/* The line of a connection; empty when there is none. */
std::string line_of(int connection) {
  std::string line;
  for (char one = 0; line.size() < 200 && servers::receive_all(connection, &one, 1);) {
    if (one == '\n') return line;
    line += one;
  }
  return {};
}

} // namespace

int main(int count, char **words) {
  if (count != 4) servers::fail("usage: rocksdb_server PORT DIRECTORY THREADS");
  const long port = servers::number_of("PORT", words[1], 1, 65535);
  const long threads = servers::number_of("THREADS", words[3], 1, 1024);
  const std::unique_ptr<rocksdb::DB> db = open(words[2]);
  const int listener = servers::listen_on(port);
  for (;;) {
    const int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) continue;
    Wanted wanted;
    const std::string line = line_of(connection);
    if (sscanf(line.c_str(), "run %ld %ld %ld %ld", &wanted.requests, &wanted.seconds, &wanted.keys,
               &wanted.bytes) == 4 &&
        wanted.keys > 0 && wanted.bytes > 0) {
      const std::string said = Work(*db, wanted).run(threads);
      servers::send_all(connection, said.data(), said.size());
    }
    close(connection);
  }
}
