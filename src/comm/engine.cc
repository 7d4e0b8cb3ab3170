#include "comm/engine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "comm/operands.h"
#include "comm/sum.h"

namespace ingot::comm {
namespace {

using cost::Step;

constexpr size_t kReceives = 0, kSends = 1;  // kinds of messages
constexpr size_t kWindow = 32;               // messages of one kind that an operation has posted, at least
constexpr std::chrono::milliseconds kDoze{100};
constexpr int64_t kHeaderGrace = 100'000'000;  // ns in which headers may still explain a failed message

constexpr uint64_t kDataLane = 0, kMarkedLane = 1, kHeaderLanes = 2;
constexpr uint64_t mask_of(int bits) { return (uint64_t{1} << bits) - 1; }

template <size_t N>
void copy_text(std::array<char, N>& to, std::string_view text) {
  to.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

}  // namespace

Operation::Operation(cost::Schedule schedule, std::vector<Peer>& peers)
    : schedule_(std::move(schedule)),
      peers_(peers),
      messages_(schedule_.steps.size()),
      waits_(schedule_.steps.size()) {
  std::vector<std::array<uint32_t, 2>> counts(peers.size());
  std::array<size_t, 3> kinds{};
  for (const Step& step : schedule_.steps) {
    const bool sends = step.kind == Step::Kind::kSend, receives = step.kind == Step::Kind::kReceive;
    ++kinds[receives ? kReceives : sends ? kSends : 2];
    if (sends || receives) ++counts[static_cast<size_t>(step.peer)][sends ? kSends : kReceives];
  }
  for (size_t member = 0; member < peers.size(); ++member) {
    for (const size_t kind : {kReceives, kSends}) {
      if (counts[member][kind] == 0) continue;
      HeaderMessage& wanted = headers_.emplace_back();
      wanted.member = member;
      wanted.messages = counts[member][kind];
      wanted.message.send = kind == kSends;
    }
  }
  receives_.heap.reserve(kinds[kReceives]);
  sends_.heap.reserve(kinds[kSends]);
  sums_.heap.reserve(kinds[2]);
  posted_.reserve(kinds[kReceives] + kinds[kSends]);
}

void Operation::Ready::push(uint32_t step) {
  heap.push_back(step);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

uint32_t Operation::Ready::pop() {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  const uint32_t step = heap.back();
  heap.pop_back();
  return step;
}

void Operation::begin() {
  steps_left_ = schedule_.steps.size();
  headers_left_ = headers_.size();
  posted_count_ = {};
  posted_highest_ = {};
  warned_ = false;
  for (uint32_t i = 0; i < schedule_.steps.size(); ++i) {
    waits_[i] = schedule_.steps[i].waits;
    if (waits_[i] == 0) make_ready(i);
  }
}

void Operation::make_ready(uint32_t step) {
  switch (schedule_.steps[step].kind) {
    case Step::Kind::kReceive:
      return receives_.push(step);
    case Step::Kind::kSend:
      return sends_.push(step);
    default:
      return sums_.push(step);
  }
}

bool Operation::unfinished_messages() const {
  const auto posted = [](const Message& message) { return message.state == Message::State::kPosted; };
  return std::ranges::any_of(messages_, posted) ||
         std::ranges::any_of(headers_, [&](const HeaderMessage& each) { return posted(each.message); });
}

Engine::Engine(std::unique_ptr<Messages> messages, const EngineOptions& options)
    : messages_(std::move(messages)), options_(options) {
  if (options_.page != nullptr) {
    options_.page->pid = getpid();
    options_.page->generation = options_.generation;
  }
  thread_ = std::thread([this] { progress_thread(); });
}

Engine::~Engine() {
  stop_ = true;
  {
    const Lock lock(mutex_);
    idle_.notify_all();
    if (sleeping_) messages_->wake();
  }
  thread_.join();
}

// ---- who drives

Result<void> Engine::run(Operation& operation) {
  submit(operation);
  return wait(operation, operation.options.timeout);
}

void Engine::post(Operation& operation) {
  submit(operation);
  Lock lock(mutex_);
  if (driving_) return;  // whoever drives takes it
  driving_ = true;
  lock.unlock();
  turn();
  lock.lock();
  release(lock);
  if (waiters_ > 0)
    changed_.notify_all();
  else if (outstanding_ > 0)
    idle_.notify_one();
}

void Engine::submit(Operation& operation) {
  copy_text(operation.header.operation, operation.name);
  copy_text(operation.header.what, operation.options.what == nullptr ? "" : operation.options.what);
  operation.header.instruction = operation.options.instruction;
  const Lock lock(mutex_);
  operation.finished_ = false;
  operation.waited_since_ns_ = 0;
  operation.error_.reset();
  operation.broken_.reset();
  ++outstanding_;
  submitted_.push_back(&operation);
  has_submitted_ = true;
  ++calls_;
  if (ProgressPage* const page = options_.page; page != nullptr) {
    page->time_ns = monotonic_ns();
    page->instruction = operation.options.instruction;
    page->sequence = calls_;
  }
}

Result<void> Engine::wait(Operation& operation, std::chrono::milliseconds limit) {
  if (!operation.finished_) {
    operation.limit_ns_ = std::chrono::nanoseconds(limit).count();
    operation.waited_since_ns_ = monotonic_ns();
    if (ProgressPage* const page = options_.page; page != nullptr) {
      page->time_ns = operation.waited_since_ns_.load();
      page->limit_ns = operation.limit_ns_.load();
      page->instruction = operation.options.instruction;
      page->say(operation.name, operation.options.what == nullptr ? "" : operation.options.what);
      page->state = RankState::kWaiting;
    }
    Lock lock(mutex_);
    ++waiters_;
    drive(lock, [&] { return operation.finished_.load(); });
    --waiters_;
    changed_.notify_all();
    // Only for what is left: waking a thread for nothing would cost more than a small operation takes.
    if (outstanding_ > 0 && waiters_ == 0) idle_.notify_one();
    // One that gives up is not computing: what it waited for stays there to be read.
    if (options_.page != nullptr && waiters_ == 0 && !operation.error_) {
      options_.page->time_ns = monotonic_ns();
      options_.page->state = RankState::kComputing;
    }
  }
  if (operation.error_) return *operation.error_;
  return {};
}

Result<void> Engine::close() {
  Lock lock(mutex_);
  ++waiters_;  // the progress thread stands aside
  changed_.wait(lock, [&] { return !driving_; });
  driving_ = true;
  lock.unlock();
  Result<void> result = messages_->close();
  lock.lock();
  driving_ = false;
  --waiters_;
  return result;
}

void Engine::discard(std::unique_ptr<Operation> operation) {
  if (!operation) return;
  if (!operation->finished_) {  // nobody waited for it
    Lock lock(mutex_);
    ++waiters_;
    changed_.wait(lock, [&] { return !driving_; });
    outstanding_ -=
        static_cast<int>(std::erase(submitted_, operation.get()) + std::erase(active_, operation.get()));
    --waiters_;
    changed_.notify_all();
  }
  if (!operation->unfinished_messages()) return;
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<Operation>>;  // the transport may write into them
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(operation));
}

void Engine::progress_thread() {
  Lock lock(mutex_);
  while (!stop_) {
    if (outstanding_ > 0 && waiters_ == 0) {
      drive(lock, [&] { return stop_ || outstanding_ == 0 || waiters_ > 0; });
      changed_.notify_all();
    } else {
      if (options_.page != nullptr) options_.page->heartbeat_ns = monotonic_ns();
      idle_.wait_for(lock, kDoze);
    }
  }
}

// Turns until `until` (which reads atomics only), whenever no other thread does.
template <class Until>
void Engine::drive(Lock& lock, const Until& until) {
  const int64_t spin_ns = std::chrono::nanoseconds(options_.spin).count();
  while (!until()) {
    if (driving_) {
      changed_.wait_for(lock, kDoze);
      continue;
    }
    driving_ = true;
    lock.unlock();
    int64_t idle_since = 0;
    while (!until()) {
      if (turn()) {
        idle_since = 0;
        continue;
      }
      const int64_t now = monotonic_ns();
      if (idle_since == 0) idle_since = now;
      if (now - idle_since < spin_ns) {
        sched_yield();  // spinning without it starves the other ranks of the core
      } else if (messages_->arm()) {
        break;
      }
    }
    lock.lock();
    release(lock);
    if (until() || !submitted_.empty()) continue;
    if (sleeping_) {
      changed_.wait_for(lock, kDoze);
      continue;
    }
    sleeping_ = true;
    lock.unlock();
    messages_->sleep(kDoze);
    lock.lock();
    sleeping_ = false;
  }
}

// Gives up the right to drive. A thread that sleeps relies on having armed: whoever turned since arms again.
void Engine::release(Lock& lock) {
  while (sleeping_) {
    lock.unlock();
    const bool armed = messages_->arm();
    if (!armed) turn();
    lock.lock();
    if (armed) break;
  }
  driving_ = false;
}

// ---- what a turn does

bool Engine::turn() {
  bool moved = take_submitted();
  moved = messages_->progress() || moved;
  for (size_t i = 0; i < active_.size();) {
    Operation& operation = *active_[i];
    moved = advance(operation) || moved;
    if (operation.error_ || (operation.steps_left_ == 0 && operation.headers_left_ == 0)) {
      finish(i, operation.error_);
      moved = true;
    } else {
      ++i;
    }
  }
  constexpr uint64_t kOften = 16;
  if (!moved || ++turns_ % kOften == 0) {
    const int64_t now = monotonic_ns();
    if (options_.page != nullptr) {
      options_.page->heartbeat_ns = now;
      options_.page->peer = active_.empty() ? -1 : waited_for(*active_.front());
    }
    for (Operation* const operation : active_) look_at_time(*operation, now);
  }
  return moved;
}

bool Engine::take_submitted() {
  if (!has_submitted_) return false;
  const size_t before = active_.size();
  {
    const Lock lock(mutex_);
    active_.insert(active_.end(), submitted_.begin(), submitted_.end());
    submitted_.clear();
    has_submitted_ = false;
  }
  for (size_t i = before; i < active_.size(); ++i) {
    active_[i]->begin();
    post_headers(*active_[i]);
  }
  return true;
}

void Engine::post_headers(Operation& operation) {
  for (Operation::HeaderMessage& header : operation.headers_) {
    const Peer& peer = operation.peers_[header.member];
    Message& message = header.message;
    if (message.send) {
      header.header = operation.header;
      if (!operation.sent_bytes.empty()) header.header.bytes = operation.sent_bytes[header.member];
    }
    message.peer = peer.rank;
    message.tag = operation.mark ? tag(peer, message.send, kHeaderLanes + kMarkedLane, *operation.mark)
                                 : tag(peer, message.send, kHeaderLanes, operation.header.sequence);
    message.data = &header.header;
    message.bytes = sizeof(Header);
    message.state = Message::State::kPosted;
    messages_->post(message);
  }
}

bool Engine::advance(Operation& operation) {
  bool moved = collect_headers(operation);
  moved = collect(operation) || moved;
  return (!operation.error_ && issue(operation)) || moved;
}

// A header is counted once: idle again afterwards.
bool Engine::collect_headers(Operation& operation) {
  if (operation.headers_left_ == 0) return false;
  bool moved = false;
  for (Operation::HeaderMessage& header : operation.headers_) {
    Message& message = header.message;
    if (message.state == Message::State::kPosted || message.state == Message::State::kIdle) continue;
    moved = true;
    if (message.state == Message::State::kFailed && !operation.broken_) {
      operation.broken_ = broken(operation, message);
      operation.broken_ns_ = monotonic_ns();
    } else if (message.state == Message::State::kDone && !message.send && !operation.error_) {
      operation.error_ = compare(operation, header);
    }
    message.state = Message::State::kIdle;
    --operation.headers_left_;
  }
  return moved;
}

bool Engine::collect(Operation& operation) {
  bool moved = false;
  std::vector<uint32_t>& posted = operation.posted_;
  for (size_t i = 0; i < posted.size();) {
    const uint32_t step = posted[i];
    const Message& message = operation.messages_[step];
    if (message.state == Message::State::kPosted) {
      ++i;
      continue;
    }
    moved = true;
    posted[i] = posted.back();
    posted.pop_back();
    --operation.posted_count_[message.send ? kSends : kReceives];
    if (message.state == Message::State::kDone) {
      complete(operation, step);
    } else if (!operation.broken_) {
      operation.broken_ = broken(operation, message);
      operation.broken_ns_ = monotonic_ns();
    }
  }
  return moved;
}

void Engine::complete(Operation& operation, uint32_t step) {
  --operation.steps_left_;
  const Step& done = operation.schedule_.steps[step];
  for (uint32_t i = done.first_next; i < done.first_next + done.nexts; ++i) {
    const uint32_t next = operation.schedule_.next[i];
    if (--operation.waits_[next] == 0) operation.make_ready(next);
  }
}

// Receives first, so that messages find them; then one sum, so that messages go on between sums.
bool Engine::issue(Operation& operation) {
  bool moved = issue_messages(operation, operation.receives_, kReceives);
  moved = issue_messages(operation, operation.sends_, kSends) || moved;
  if (operation.sums_.heap.empty()) return moved;
  const uint32_t which = operation.sums_.pop();
  const Step& step = operation.schedule_.steps[which];
  const int64_t size = tensor::size_of(operation.header.dtype);
  const auto address = [&](const cost::Place& place) {
    return operation.area[static_cast<size_t>(place.area)] + place.offset * size;
  };
  const cost::Place* sources = operation.schedule_.sources.data() + step.first_source;
  if (step.kind == Step::Kind::kCopy) {
    if (address(step.to) != address(sources[0]))
      std::memcpy(address(step.to), address(sources[0]), static_cast<size_t>(step.elements * size));
  } else {
    constexpr size_t kMostParts = 1024;
    std::array<const void*, kMostParts> parts;
    INGOT_CHECK(step.sources <= kMostParts, "a sum of {} parts", step.sources);
    for (uint32_t i = 0; i < step.sources; ++i) parts[i] = address(sources[i]);
    void* const to = address(step.to);
    sum_in_order(operation.header.dtype, {parts.data(), step.sources}, 0, step.elements,
                 std::span<void* const>(&to, 1), 0);
  }
  complete(operation, which);
  return true;
}

// At most kWindow at a time, but always those before one that is posted: what they wait for may be behind.
bool Engine::issue_messages(Operation& operation, Operation::Ready& ready, size_t kind) {
  bool moved = false;
  while (!ready.heap.empty()) {
    const uint32_t step = ready.heap.front();
    if (operation.posted_count_[kind] >= kWindow && step > operation.posted_highest_[kind]) break;
    ready.pop();
    operation.posted_highest_[kind] = std::max(operation.posted_highest_[kind], step);
    post_message(operation, step, kind);
    moved = true;
  }
  return moved;
}

void Engine::post_message(Operation& operation, uint32_t which, size_t kind) {
  const Step& step = operation.schedule_.steps[which];
  const Peer& peer = operation.peers_[static_cast<size_t>(step.peer)];
  const cost::Place& place = kind == kSends ? operation.schedule_.sources[step.first_source] : step.to;
  const int64_t size = tensor::size_of(operation.header.dtype);
  Message& message = operation.messages_[which];
  message.peer = peer.rank;
  message.send = kind == kSends;
  const uint64_t count = (kind == kSends ? peer.sent : peer.received) + step.message;
  message.tag = operation.mark ? tag(peer, message.send, kMarkedLane, *operation.mark)
                               : tag(peer, message.send, kDataLane, count);
  message.bytes = step.elements * size;
  message.data =
      message.bytes == 0 ? nullptr : operation.area[static_cast<size_t>(place.area)] + place.offset * size;
  message.state = Message::State::kPosted;
  messages_->post(message);
  operation.posted_.push_back(which);
  ++operation.posted_count_[kind];
}

uint64_t Engine::tag(const Peer& peer, bool send, uint64_t lane, uint64_t rest) const {
  const auto sender = static_cast<uint64_t>(send ? messages_->rank() : peer.rank);
  uint64_t bits = options_.generation & mask_of(kTagGenerationBits);
  bits = bits << kTagSourceBits | (sender & mask_of(kTagSourceBits));
  bits = bits << kTagChannelBits | (peer.channel & mask_of(kTagChannelBits));
  bits = bits << kTagLaneBits | lane;
  return bits << kTagRestBits | (rest & mask_of(kTagRestBits));
}

// ---- what goes wrong

void Engine::look_at_time(Operation& operation, int64_t now) {
  if (operation.error_) return;
  if (operation.broken_ && now - operation.broken_ns_ > kHeaderGrace) {
    operation.error_ = operation.broken_;
    return;
  }
  const int64_t since = operation.waited_since_ns_, limit = operation.limit_ns_, waited = now - since;
  if (since == 0 || waited < limit) return;
  const double seconds = static_cast<double>(limit) * 1e-9;
  if (!operation.warned_ && warn_) warn_(lateness(operation, seconds));
  operation.warned_ = true;
  if (waited >= 2 * limit) operation.error_ = Error{ErrorCode::kFault, lateness(operation, 2 * seconds)};
}

// Rank of the peer whose message the earliest unfinished step needs, receives before sends; -1: nobody's.
int Engine::waited_for(const Operation& operation) const {
  uint32_t earliest = UINT32_MAX;
  bool receives = false;
  for (const uint32_t step : operation.posted_) {
    const bool receive = !operation.messages_[step].send;
    if (receive < receives || (receive == receives && step >= earliest)) continue;
    earliest = step;
    receives = receive;
  }
  if (earliest != UINT32_MAX) return operation.messages_[earliest].peer;
  for (const Operation::HeaderMessage& header : operation.headers_)
    if (header.message.state == Message::State::kPosted) return header.message.peer;
  return -1;
}

std::string Engine::lateness(const Operation& operation, double seconds) const {
  const std::string call = describe_call(operation.name, operation.header.bytes, operation.options);
  const int own = messages_->rank(), peer = waited_for(operation);
  if (operation.mark) {
    return fmt::format("rank {} has not {} the message of tag {} for {:g} s; rank {} waits in {}", peer,
                       operation.name == "receive" ? "sent" : "received", operation.header.detail, seconds,
                       own, call);
  }
  if (peer < 0) return fmt::format("rank {} is still adding in {} after {:g} s", own, call, seconds);
  return fmt::format("rank {} waits for rank {} in {} for {:g} s", own, peer, call, seconds);
}

Error Engine::broken(const Operation& operation, const Message& message) const {
  return {
      ErrorCode::kFault,
      fmt::format("rank {} lost its connection to rank {} in {}: {}", messages_->rank(), message.peer,
                  describe_call(operation.name, operation.header.bytes, operation.options), message.failure)};
}

// The error of a peer that makes another call, if it does.
std::optional<Error> Engine::compare(const Operation& operation,
                                     const Operation::HeaderMessage& received) const {
  const Header& own = operation.header;
  const Header& other = received.header;
  const int64_t bytes =
      operation.received_bytes.empty() ? own.bytes : operation.received_bytes[received.member];
  const bool same_call =
      operation.mark.has_value() || (own.operation == other.operation && own.plan == other.plan);
  if (same_call && bytes == other.bytes && own.dtype == other.dtype && own.detail == other.detail &&
      own.sequence == other.sequence)
    return {};
  CallOptions options;
  options.instruction = other.instruction;
  options.what = other.what.data();
  const std::string_view name(other.operation.data());
  return differing_calls({messages_->rank(), describe_call(operation.name, bytes, operation.options),
                          own.dtype, own.detail, own.sequence},
                         {operation.peers_[received.member].rank, describe_call(name, other.bytes, options),
                          other.dtype, other.detail, other.sequence});
}

void Engine::finish(size_t active, std::optional<Error> error) {
  Operation& operation = *active_[active];
  active_[active] = active_.back();
  active_.pop_back();
  if (error) {
    operation.posted_.clear();
    operation.receives_.heap.clear();
    operation.sends_.heap.clear();
    operation.sums_.heap.clear();
  } else if (!operation.mark) {
    for (const Operation::HeaderMessage& header : operation.headers_) {
      Peer& peer = operation.peers_[header.member];
      (header.message.send ? peer.sent : peer.received) += header.messages;
    }
  }
  const Lock lock(mutex_);
  --outstanding_;
  operation.finished_ = true;  // from here on it is its owner's
  if (sleeping_) messages_->wake();
  changed_.notify_all();
}

}  // namespace ingot::comm
