#include "runtime/transfers.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "runtime/arena_guard.h"

namespace ingot::runtime {
namespace {

size_t slot_class(const graph::Transfer& transfer) {
  return static_cast<size_t>(transfer.space) - graph::kFirstSlotSpace;
}

}  // namespace

Transfers::Transfers(const graph::Program& program, std::vector<BoundTransfer>& bound,
                     const ExecutorOptions& options, Observer observer)
    : program_(program),
      bound_(bound),
      options_(options),
      observer_(std::move(observer)),
      by_wait_(bound.size()) {
  std::iota(by_wait_.begin(), by_wait_.end(), size_t{0});
  std::ranges::stable_sort(by_wait_, {}, [&](size_t i) { return bound_[i].transfer->wait; });
  for (BoundTransfer& own : bound_) {
    const auto after =
        program.timeline.begin() + std::min<std::ptrdiff_t>(own.transfer->wait, std::ssize(program.timeline));
    own.frees = own.transfer->send &&
                std::none_of(after, program.timeline.end(),
                             [&](const auto& invocation) { return holds(*own.transfer, invocation); });
  }
}

// Whether an invocation has the slot of a transfer, and is of its micro-batch.
bool Transfers::holds(const graph::Transfer& transfer, const graph::Invocation& invocation) const {
  return invocation.slot[slot_class(transfer)] == transfer.slot &&
         invocation.micro_batch == transfer.micro_batch &&
         program_.code->segments[static_cast<size_t>(invocation.segment)].chunk == transfer.chunk;
}

std::vector<std::array<bool, graph::kSlotClasses>> Transfers::freed_slots() const {
  const std::vector<graph::Invocation>& timeline = program_.timeline;
  const auto owner_of = [&](const graph::Invocation& invocation) {
    return std::pair(program_.code->segments[static_cast<size_t>(invocation.segment)].chunk,
                     invocation.micro_batch);
  };
  std::vector<std::array<bool, graph::kSlotClasses>> frees(timeline.size());
  for (size_t at = 0; at < timeline.size(); ++at) {
    const graph::Invocation& own = timeline[at];
    for (size_t c = 0; c < graph::kSlotClasses; ++c) {
      if (own.slot[c] < 0) continue;
      const auto next = std::find_if(timeline.begin() + static_cast<std::ptrdiff_t>(at) + 1, timeline.end(),
                                     [&](const auto& other) { return other.slot[c] == own.slot[c]; });
      const bool read_again = next != timeline.end() && owner_of(*next) == owner_of(own);
      const bool in_flight = std::ranges::any_of(program_.transfers, [&](const graph::Transfer& transfer) {
        return transfer.send && transfer.wait > static_cast<int>(at) && slot_class(transfer) == c &&
               holds(transfer, own);
      });
      frees[at][c] = !read_again && !in_flight;
    }
  }
  return frees;
}

Result<void> Transfers::run(int position) {
  for (; posted_ < bound_.size() && bound_[posted_].transfer->post == position; ++posted_)
    INGOT_TRY_VOID(post(bound_[posted_]));
  const size_t first = awaited_;
  for (; awaited_ < by_wait_.size() && bound_[by_wait_[awaited_]].transfer->wait == position; ++awaited_)
    INGOT_TRY_VOID(wait(bound_[by_wait_[awaited_]]));
  if (!options_.poison) return {};
  for (size_t i = first; i < awaited_; ++i) {
    const BoundTransfer& sent = bound_[by_wait_[i]];
    if (sent.frees)
      poison_closed(sent.view.as<std::byte>() - sent.transfer->offset,
                    program_.pools[slot_class(*sent.transfer)].slot_bytes);
  }
  return {};
}

comm::CallOptions Transfers::call_of(const BoundTransfer& transfer) const {
  comm::CallOptions call;
  call.timeout = options_.comm_timeout;
  call.instruction = transfer.transfer->id;
  call.what = transfer.what.c_str();
  return call;
}

Result<void> Transfers::post(BoundTransfer& own) {
  const graph::Transfer& transfer = *own.transfer;
  open_memory(own.view.data, own.view.bytes());
  auto ticket = transfer.send ? own.group->post_send(own.view, own.peer, transfer.tag, call_of(own))
                              : own.group->post_receive(own.view, own.peer, transfer.tag, call_of(own));
  if (!ticket) return std::move(ticket).take_error().context(graph::describe(program_, transfer));
  own.ticket = *ticket;
  return {};
}

Result<void> Transfers::wait(BoundTransfer& own) {
  const int64_t begin_ns = monotonic_ns();
  auto result = own.group->wait(own.ticket, call_of(own));
  if (!result) return std::move(result).take_error().context(graph::describe(program_, *own.transfer));
  const int64_t end_ns = monotonic_ns();
  waited_ns_ += end_ns - begin_ns;
  const graph::Transfer& transfer = *own.transfer;
  const auto position = static_cast<size_t>(transfer.send ? transfer.post - 1 : transfer.wait);
  const graph::Segment& segment = program_.code->segments[static_cast<size_t>(transfer.segment)];
  observer_(program_.timeline[position], segment.crossings[static_cast<size_t>(transfer.crossing)], begin_ns,
            end_ns);
  close_memory(own.view.data, own.view.bytes());
  return {};
}

}  // namespace ingot::runtime
