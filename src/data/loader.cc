#include "data/loader.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/counted.h"

namespace ingot::data {
namespace {

constexpr int kNiceLevel = 10;
constexpr int64_t kBuffers = 2;

// On Linux a priority belongs to a thread. Failing is harmless: the thread sleeps nearly always.
void lower_priority_of_this_thread() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  (void)::setpriority(PRIO_PROCESS, thread, kNiceLevel);
}

}  // namespace

struct Loader::State {
  State(const TokenStream& stream, Sampler order, const LoaderOptions& chosen)
      : options(chosen), filler(stream, order, chosen.slice) {}

  LoaderOptions options;
  BatchFiller filler;  // of the thread
  std::array<StepBuffer, kBuffers> buffers;

  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex. Steps below filled_end are or were in a buffer; those below released_end are done with.
  int64_t filled_end = 0;
  int64_t acquired_end = 0;
  int64_t released_end = 0;
  bool stopping = false;
  std::optional<Error> failed;

  std::atomic<int64_t> filling_sample{-1};  // for the message of a timeout
  std::atomic<int64_t> substituted{0};
  std::atomic<int64_t> stall_ns{0};
  std::thread thread;

  void run();
  Result<void> fill_step(int64_t step);
  void report_substitutions();
  int buffer_of(int64_t step) const { return static_cast<int>((step - options.first_step) % kBuffers); }
};

void Loader::State::report_substitutions() {
  for (const Substitution& s : filler.substitutions()) {
    substituted.fetch_add(1, std::memory_order_relaxed);
    if (options.events == nullptr) continue;
    options.events->emit(
        {Severity::kWarning,
         "data_substituted",
         fmt::format("Sample {} lies in a damaged block; sample {} of the data stands in for it",
                     s.global_sample, s.substitute),
         {{"sample", s.global_sample}, {"damaged", s.damaged}, {"substitute", s.substitute}}});
  }
  filler.clear_substitutions();
}

Result<void> Loader::State::fill_step(int64_t step) {
  StepBuffer& buffer = buffers[static_cast<size_t>(buffer_of(step))];
  for (size_t micro = 0; micro < buffer.size(); ++micro) {
    const int64_t first = options.layout.first_sample(step, options.replica, static_cast<int64_t>(micro));
    filling_sample.store(first, std::memory_order_relaxed);
    BatchRequest request;
    request.first_sample = first;
    request.document_mask = options.document_mask;
    request.on_corrupt = options.on_corrupt;
    INGOT_TRY_VOID(filler.fill(request, buffer[micro]));
    if (!filler.substitutions().empty()) report_substitutions();
  }
  return {};
}

void Loader::State::run() {
  lower_priority_of_this_thread();
  for (int64_t step = options.first_step; options.end_step < 0 || step < options.end_step; ++step) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stopping || step < released_end + kBuffers; });
      if (stopping) return;
    }
    Result<void> filled = fill_step(step);
    const std::lock_guard lock(mutex);
    if (filled) {
      filled_end = step + 1;
    } else {
      failed = std::move(filled).take_error();
    }
    changed.notify_all();
    if (failed || stopping) return;
  }
}

Loader::Loader() = default;

Result<std::unique_ptr<Loader>> Loader::start(const TokenStream& stream, Sampler order,
                                              const LoaderOptions& options, StepBuffer first,
                                              StepBuffer second) {
  INGOT_TRY_VOID(options.layout.validate());
  INGOT_CHECK(options.replica >= 0 && options.replica < options.layout.replicas, "replica {} of {}",
              options.replica, options.layout.replicas);
  INGOT_CHECK(options.first_step >= 0, "first step {}", options.first_step);
  const size_t micro_batches = static_cast<size_t>(options.layout.micro_batches(options.replica));
  INGOT_CHECK(first.size() == micro_batches && second.size() == micro_batches,
              "buffers of {} and {} micro-batches for a step of {}", first.size(), second.size(),
              micro_batches);
  for (const StepBuffer* buffer : {&first, &second}) {
    for (const BatchView& batch : *buffer) {
      INGOT_CHECK(batch.batch == options.layout.micro_batch && batch.seq_len == options.slice.width(),
                  "a micro-batch [{}, {}] in a buffer of [{}, {}]", batch.batch, batch.seq_len,
                  options.layout.micro_batch, options.slice.width());
    }
  }
  const int64_t seq_len = options.slice.seq_len;
  if (stream.samples(seq_len) < 1) {
    return invalid(
        fmt::format("The data has {}; one sample of data.seq_len = {} needs {}. Give more text, or a "
                    "shorter data.seq_len",
                    counted(stream.tokens(), "token"), seq_len, format_integer(seq_len + 1)));
  }
  auto loader = std::unique_ptr<Loader>(new Loader);
  loader->state_ = std::make_unique<State>(stream, order, options);
  State& s = *loader->state_;
  s.buffers = {std::move(first), std::move(second)};
  s.filled_end = s.acquired_end = s.released_end = options.first_step;
  s.thread = std::thread([&s] { s.run(); });
  return loader;
}

Loader::~Loader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

Result<LoadedStep> Loader::acquire(int64_t step, double timeout_s) {
  State& s = *state_;
  const int64_t begin_ns = monotonic_ns();
  std::unique_lock lock(s.mutex);
  INGOT_CHECK(step == s.acquired_end, "step {} acquired after step {}", step, s.acquired_end - 1);
  INGOT_CHECK(s.options.end_step < 0 || step < s.options.end_step, "step {} acquired, the end is {}", step,
              s.options.end_step);
  INGOT_CHECK(step < s.released_end + kBuffers, "step {} acquired while step {} is not released", step,
              s.released_end);
  const bool waited = s.filled_end <= step && !s.failed;
  const bool ready = s.changed.wait_for(lock, std::chrono::duration<double>(timeout_s),
                                        [&] { return s.filled_end > step || s.failed.has_value(); });
  if (!ready) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format(
            "The data of step {} was not there after {} s; the loader is at sample {}. Is the disk slow "
            "or gone?",
            step, timeout_s, s.filling_sample.load(std::memory_order_relaxed))};
  }
  if (s.filled_end <= step) return *s.failed;
  s.acquired_end = step + 1;
  const int64_t stall = waited ? monotonic_ns() - begin_ns : 0;
  s.stall_ns.fetch_add(stall, std::memory_order_relaxed);
  return LoadedStep{s.buffer_of(step), stall};
}

void Loader::release(int64_t step) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    INGOT_CHECK(step == s.released_end && step < s.acquired_end, "step {} released after step {}", step,
                s.released_end - 1);
    s.released_end = step + 1;
  }
  s.changed.notify_all();
}

int64_t Loader::substituted_samples() const { return state_->substituted.load(std::memory_order_relaxed); }
int64_t Loader::stall_ns() const { return state_->stall_ns.load(std::memory_order_relaxed); }

}  // namespace ingot::data
