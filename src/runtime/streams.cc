#include "runtime/streams.h"

namespace ingot::runtime {

StreamThread::StreamThread(std::function<Result<void>(Issued&)> run)
    : run_(std::move(run)), thread_([this] { serve(); }) {}

StreamThread::~StreamThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  issued_.notify_one();
  thread_.join();
}

uint64_t StreamThread::issue(const Issued& job) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return issued_count_ - done_count_ < kMostIssued; });
  jobs_[issued_count_ % kMostIssued] = job;
  const uint64_t number = ++issued_count_;
  lock.unlock();
  issued_.notify_one();
  return number;
}

Result<void> StreamThread::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return done_count_ >= number; });
  if (error_) return *error_;
  return {};
}

void StreamThread::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    issued_.wait(lock, [&] { return stop_ || issued_count_ > done_count_; });
    if (stop_) return;
    Issued& job = jobs_[done_count_ % kMostIssued];
    if (!error_) {
      lock.unlock();
      Result<void> result = run_(job);
      lock.lock();
      if (!result) error_ = std::move(result).take_error();
    }
    ++done_count_;
    done_.notify_all();
  }
}

}  // namespace ingot::runtime
