#include "data/ordered_encoder.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

namespace ingot::data {
namespace {

constexpr size_t kUnitsPerThread = 3;  // of several; one thread alone takes one after the other, in its cache

void encode_unit(Encoder& encoder, EncodeUnit& unit) {
  constexpr size_t kBytesPerId = 4;  // of English; more ids grow the vector once
  unit.ids.reserve(unit.text.size() / kBytesPerId);
  std::string_view rest = unit.text;
  for (size_t i = 0; i < unit.pieces.size(); ++i) {
    EncodeUnit::Piece& piece = unit.pieces[i];
    const size_t before = unit.ids.size();
    Result<void> encoded = encoder.encode(rest.substr(0, piece.text_bytes), unit.ids);
    if (!encoded) {
      unit.failed = std::move(encoded).take_error();
      unit.failed_piece = i;
      return;
    }
    piece.ids = unit.ids.size() - before;
    rest.remove_prefix(piece.text_bytes);
  }
}

enum class Stage : uint8_t { kWaiting, kTaken, kDone };

struct Slot {
  std::unique_ptr<EncodeUnit> unit;
  Stage stage = Stage::kWaiting;
};

}  // namespace

struct OrderedEncoder::State {
  size_t limit = 0;
  std::unique_ptr<Encoder> own_encoder;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<Slot>> slots;  // oldest first
  bool stopping = false;
  std::vector<std::thread> threads;

  // Under the mutex: the oldest unit that nobody has.
  Slot* take() {
    for (const std::unique_ptr<Slot>& slot : slots) {
      if (slot->stage == Stage::kWaiting) {
        slot->stage = Stage::kTaken;
        return slot.get();
      }
    }
    return nullptr;
  }

  void run(Encoder& encoder) {
    std::unique_lock lock(mutex);
    while (!stopping) {
      Slot* slot = take();
      if (slot == nullptr) {
        changed.wait(lock);
        continue;
      }
      encode(encoder, *slot, lock);
    }
  }

  void encode(Encoder& encoder, Slot& slot, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    encode_unit(encoder, *slot.unit);
    lock.lock();
    slot.stage = Stage::kDone;
    changed.notify_all();
  }
};

OrderedEncoder::OrderedEncoder(const Tokenizer& tokenizer, int threads) : state_(std::make_unique<State>()) {
  INGOT_CHECK(threads >= 1, "{} threads", threads);
  state_->limit = threads == 1 ? 1 : static_cast<size_t>(threads) * kUnitsPerThread;
  state_->own_encoder = tokenizer.encoder();
  for (int i = 1; i < threads; ++i) {
    state_->threads.emplace_back([state = state_.get(), &tokenizer] {
      const std::unique_ptr<Encoder> encoder = tokenizer.encoder();
      state->run(*encoder);
    });
  }
}

OrderedEncoder::~OrderedEncoder() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

bool OrderedEncoder::full() const {
  const std::lock_guard lock(state_->mutex);
  return state_->slots.size() >= state_->limit;
}

bool OrderedEncoder::empty() const {
  const std::lock_guard lock(state_->mutex);
  return state_->slots.empty();
}

void OrderedEncoder::submit(std::unique_ptr<EncodeUnit> unit) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->slots.push_back(std::make_unique<Slot>(Slot{std::move(unit), Stage::kWaiting}));
  }
  state_->changed.notify_all();
}

std::unique_ptr<EncodeUnit> OrderedEncoder::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  INGOT_CHECK(!s.slots.empty(), "next() of an encoder with nothing in flight");
  while (s.slots.front()->stage != Stage::kDone) {
    if (Slot* slot = s.take(); slot != nullptr) {
      s.encode(*s.own_encoder, *slot, lock);
    } else {
      s.changed.wait(lock);
    }
  }
  std::unique_ptr<EncodeUnit> unit = std::move(s.slots.front()->unit);
  s.slots.pop_front();
  return unit;
}

}  // namespace ingot::data
