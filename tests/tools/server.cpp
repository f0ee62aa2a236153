// server.cpp - a small server with threads, for tests that look at it under load: a queue of requests, a store that workers
// change, strings of many sizes that one thread makes and another frees. Says "ready", works until its input ends.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct Request {
  unsigned key;
  std::string value;
};

std::mutex lock;
std::condition_variable filled;
std::deque<std::unique_ptr<Request>> requests;
std::mutex store_lock;
std::map<unsigned, std::string> store;
std::atomic<bool> ends{false};

void work() {
  for (;;) {
    std::unique_ptr<Request> request;
    {
      std::unique_lock<std::mutex> held(lock);
      filled.wait(held, [] { return !requests.empty() || ends; });
      if (ends) return;
      request = std::move(requests.front());
      requests.pop_front();
    }
    std::lock_guard<std::mutex> held(store_lock);
    if (request->value.empty()) store.erase(request->key);
    else store[request->key] = std::move(request->value);
  }
}

void ask() {
  std::mt19937 random(1);
  while (!ends) {
    auto request = std::make_unique<Request>();
    request->key = random() % 20000;
    request->value.assign(random() % 8 == 0 ? 0 : 1 + random() % 3000, 'x');
    std::unique_lock<std::mutex> held(lock);
    if (requests.size() < 1000) requests.push_back(std::move(request));
    held.unlock();
    filled.notify_one();
  }
}

} // namespace

int main() {
  std::vector<std::thread> threads;
  threads.reserve(5);
  for (int i = 0; i < 4; i++) threads.emplace_back(work);
  threads.emplace_back(ask);
  for (;;) {
    std::lock_guard<std::mutex> held(store_lock);
    if (store.size() > 15000) break;
  }
  std::printf("ready %d 0\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) continue;
  {
    std::lock_guard<std::mutex> held(lock);
    ends = true;
  }
  filled.notify_all();
  for (auto &thread : threads) thread.join();
  return 0;
}
