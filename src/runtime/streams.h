#pragma once
// A thread on which the asynchronous instructions of one stream run beside compute, in order of issue.
// Internal to runtime.

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/bound.h"

namespace ingot::runtime {

class StreamThread {
 public:
  // `run` is called on the thread, once per job; after its first error no job is run any more.
  explicit StreamThread(std::function<Result<void>(Issued&)> run);
  ~StreamThread();  // after the job that is running; those behind it are dropped
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  // Hands over a job; returns its number, counted from 1. Waits while kMostIssued are outstanding, far more
  // than plans allow. Allocates nothing.
  uint64_t issue(const Issued& job);
  // Until this job and all before it are done. The error of the first that failed.
  Result<void> wait(uint64_t number);

 private:
  static constexpr size_t kMostIssued = 64;
  void serve();

  const std::function<Result<void>(Issued&)> run_;
  std::mutex mutex_;
  std::condition_variable issued_, done_;
  std::array<Issued, kMostIssued> jobs_;
  uint64_t issued_count_ = 0, done_count_ = 0;
  bool stop_ = false;
  std::optional<Error> error_;
  std::thread thread_;
};

}  // namespace ingot::runtime
