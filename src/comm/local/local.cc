#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "comm/comm.h"
#include "comm/local/mailbox.h"
#include "comm/local/meeting.h"
#include "comm/operands.h"
#include "comm/sum.h"

namespace ingot::comm {
namespace {

using local::Call;
using local::Mailbox;
using local::Meeting;

struct Group {
  Group(const std::vector<int>& ranks, bool early) : meeting(ranks), mailbox(ranks, early) {}
  Meeting meeting;
  Mailbox mailbox;
};

// What the ranks of one world share. Groups live as long as it does: a world makes a few per program.
class World {
 public:
  World(int ranks, bool early_messages) : ranks_(ranks), early_messages_(early_messages) {}
  int ranks() const { return ranks_; }

  // The `ordinal`-th group that a member makes of these axes and ranks is the same one for all of them.
  std::shared_ptr<Group> group(int axes, const std::vector<int>& ranks, int ordinal) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Group>& group = groups_[{axes, ranks, ordinal}];
    if (!group) group = std::make_shared<Group>(ranks, early_messages_);
    return group;
  }

 private:
  const int ranks_;
  const bool early_messages_;
  std::mutex mutex_;
  std::map<std::tuple<int, std::vector<int>, int>, std::shared_ptr<Group>> groups_;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int index, Meeting::Warn warn)
      : group_(std::move(group)), index_(index), warn_(std::move(warn)) {}
  ~LocalCommunicator() override {
    for (const Mailbox::Posted& posted : posted_)
      if (posted.lane != nullptr) group_->mailbox.withdraw(posted);
  }
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;

  int size() const override { return group_->meeting.size(); }
  int index() const override { return index_; }

  Result<void> all_reduce(const TensorView& in, const TensorView& out, const CallOptions& options) override {
    INGOT_CHECK(in.elements() == out.elements() && in.dtype == out.dtype, "all_reduce of {} into {}",
                in.shape.to_string(), out.shape.to_string());
    return run("all_reduce", in, out, -1, options, [&](std::span<const Call> calls) {
      // Each member adds its own range for all, so that `out` may be `in`.
      const int64_t first = in.elements() * index_ / size(), end = in.elements() * (index_ + 1) / size();
      Pointers pointers(calls);
      sum_in_order(in.dtype, pointers.inputs, first, end - first, pointers.outputs, first);
    });
  }

  Result<void> reduce_scatter(const TensorView& in, const TensorView& out, int dim,
                              const CallOptions& options) override {
    const Blocks part = blocks_of(out.shape, dim);
    INGOT_CHECK(in.elements() == out.elements() * size() && in.dtype == out.dtype,
                "reduce_scatter of {} into {} over {} members", in.shape.to_string(), out.shape.to_string(),
                size());
    return run("reduce_scatter", in, out, dim, options, [&](std::span<const Call> calls) {
      Pointers pointers(calls);
      void* const own = out.data;
      for (int64_t block = 0; block < part.outer; ++block)
        sum_in_order(in.dtype, pointers.inputs, (block * size() + index_) * part.inner, part.inner,
                     std::span<void* const>(&own, 1), block * part.inner);
    });
  }

  Result<void> all_gather(const TensorView& in, const TensorView& out, int dim,
                          const CallOptions& options) override {
    const Blocks part = blocks_of(in.shape, dim);
    INGOT_CHECK(out.elements() == in.elements() * size() && in.dtype == out.dtype,
                "all_gather of {} into {} over {} members", in.shape.to_string(), out.shape.to_string(),
                size());
    return run("all_gather", in, out, dim, options, [&](std::span<const Call> calls) {
      // Each member hands its own part to all.
      const int64_t bytes = part.inner * tensor::size_of(in.dtype);
      for (const Call& call : calls) {
        for (int64_t block = 0; block < part.outer; ++block) {
          const std::byte* from = in.as<const std::byte>() + block * bytes;
          std::byte* to = call.out.as<std::byte>() + (block * size() + index_) * bytes;
          if (from != to) std::memcpy(to, from, static_cast<size_t>(bytes));
        }
      }
    });
  }

  Result<void> all_to_all(const TensorView& in, std::span<const int64_t> sent_rows, const TensorView& out,
                          std::span<const int64_t> received_rows, const CallOptions& options) override {
    check_rows(in, sent_rows, size());
    check_rows(out, received_rows, size());
    const int64_t row_bytes = bytes_of_row(in);
    Call call{"all_to_all", in, out, -1, sent_rows, row_bytes, sequence_++, options};
    std::optional<Error> differs;
    INGOT_TRY_VOID(group_->meeting.run(index_, call, warn_, [&](std::span<const Call> calls) {
      std::byte* to = out.as<std::byte>();
      for (int member = 0; member < size(); ++member) {
        const Call& other = calls[static_cast<size_t>(member)];
        const int64_t expected = received_rows[static_cast<size_t>(member)];
        int64_t before = 0;
        for (int i = 0; i < index_; ++i) before += other.sent_rows[static_cast<size_t>(i)];
        const int64_t rows = other.sent_rows[static_cast<size_t>(index_)];
        if (rows != expected) {
          differs = group_->meeting.other_rows(index_, expected, member, rows, options);
          return;
        }
        if (rows > 0)
          std::memcpy(to, other.in.as<const std::byte>() + before * row_bytes,
                      static_cast<size_t>(rows * row_bytes));
        to += rows * row_bytes;
      }
    }));
    if (!differs) return {};
    group_->meeting.fail(*differs);
    return *differs;
  }

  Result<void> broadcast(const TensorView& inout, int root, const CallOptions& options) override {
    INGOT_CHECK(root >= 0 && root < size(), "broadcast from member {} of {}", root, size());
    return run("broadcast", inout, inout, root, options, [&](std::span<const Call> calls) {
      if (index_ == root || inout.bytes() == 0) return;
      std::memcpy(inout.data, calls[static_cast<size_t>(root)].in.data, static_cast<size_t>(inout.bytes()));
    });
  }

  Result<Ticket> post_send(const TensorView& in, int to, int tag, const CallOptions& options) override {
    INGOT_CHECK(to >= 0 && to < size(), "send to member {} of {}", to, size());
    return keep(group_->mailbox.post(true, in, index_, to, tag, options, warn_));
  }

  Result<Ticket> post_receive(const TensorView& out, int from, int tag, const CallOptions& options) override {
    INGOT_CHECK(from >= 0 && from < size(), "receive from member {} of {}", from, size());
    return keep(group_->mailbox.post(false, out, from, index_, tag, options, warn_));
  }

  Result<void> wait(Ticket ticket, const CallOptions& options) override {
    const Mailbox::Posted posted = std::exchange(posted_[static_cast<size_t>(ticket.index)], {});
    return group_->mailbox.wait(posted, options, warn_);
  }

  Result<void> barrier(const CallOptions& options) override {
    TensorView nothing;
    nothing.shape = tensor::Shape{0};
    return run("barrier", nothing, nothing, -1, options, [](std::span<const Call>) {});
  }

 private:
  // Operands of all members as plain pointers, in arrays on the stack: a step allocates nothing.
  static constexpr size_t kMaxMembers = 1024;
  struct Pointers {
    explicit Pointers(std::span<const Call> calls)
        : inputs(in.data(), calls.size()), outputs(out.data(), calls.size()) {
      for (size_t i = 0; i < calls.size(); ++i) {
        in[i] = calls[i].in.data;
        out[i] = calls[i].out.data;
      }
    }
    std::array<const void*, kMaxMembers> in;
    std::array<void*, kMaxMembers> out;
    std::span<const void* const> inputs;
    std::span<void* const> outputs;
  };

  template <class Work>
  Result<void> run(std::string_view operation, const TensorView& in, const TensorView& out, int dim,
                   const CallOptions& options, const Work& work) {
    const Call call{operation, in, out, dim, {}, in.bytes(), sequence_++, options};
    return group_->meeting.run(index_, call, warn_, work);
  }

  Result<Ticket> keep(Result<Mailbox::Posted> posted) {
    if (!posted) return std::move(posted).take_error();
    auto free = std::ranges::find(posted_, nullptr, &Mailbox::Posted::lane);
    if (free == posted_.end()) free = posted_.insert(posted_.end(), Mailbox::Posted{});
    *free = *posted;
    return Ticket{static_cast<int32_t>(free - posted_.begin())};
  }

  std::shared_ptr<Group> group_;
  int index_;
  Meeting::Warn warn_;
  uint64_t sequence_ = 0;
  std::vector<Mailbox::Posted> posted_;  // grows to the most that were outstanding at once
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<World> world, int rank) : world_(std::move(world)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world() const override { return world_->ranks(); }

  Result<std::unique_ptr<Communicator>> group(const graph::Mesh& mesh, graph::AxisMask axes) override {
    INGOT_TRY_VOID(check_world(mesh, world()));
    return make(axes, mesh.members(rank_, axes));
  }

  Result<std::unique_ptr<Communicator>> group(std::span<const int> ranks) override {
    INGOT_TRY_VOID(check_members(ranks, rank_, world()));
    return make(kListed, std::vector<int>(ranks.begin(), ranks.end()));
  }

  void on_warning(std::function<void(const std::string&)> listener) override { warn_ = std::move(listener); }

  Result<void> use_fabric(const cost::Fabric&, const CallOptions&) override { return {}; }  // no messages
  Result<void> leave(const CallOptions&) override { return {}; }  // nothing breaks

 private:
  static constexpr int kListed = -1;  // made of a list of ranks, not of axes

  std::unique_ptr<Communicator> make(int axes, const std::vector<int>& ranks) {
    const int ordinal = made_[{axes, ranks}]++;
    const auto own = std::ranges::find(ranks, rank_);
    return std::make_unique<LocalCommunicator>(world_->group(axes, ranks, ordinal),
                                               static_cast<int>(own - ranks.begin()), warn_);
  }

  std::shared_ptr<World> world_;
  int rank_;
  std::map<std::pair<int, std::vector<int>>, int> made_;  // groups made so far, by axes and members
  std::function<void(const std::string&)> warn_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_world(int ranks, bool early_messages) {
  INGOT_CHECK(ranks >= 1 && ranks <= 1024, "a local world of {} ranks", ranks);
  const auto world = std::make_shared<World>(ranks, early_messages);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<LocalTransport>(world, rank));
  return transports;
}

}  // namespace ingot::comm
