#include "comm/scheduled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "base/hash.h"
#include "comm/operands.h"
#include "cost/collective_cost.h"

namespace ingot::comm {
namespace {

using cost::Collective;
using tensor::Buffer;

// What the communicators of one rank share; lives until the last of them is gone.
struct Core {
  Core(std::unique_ptr<Messages> messages, const EngineOptions& options)
      : engine(std::move(messages), options), nodes(static_cast<size_t>(engine.messages().world())) {}
  Engine engine;
  std::map<std::pair<int, uint64_t>, int> channels;  // (rank, channel) in use
  cost::Fabric fabric;
  cost::Nodes nodes;  // of all ranks
  std::optional<cost::CollectiveChoice> prescribed;
};

// Whether sums of this type must be made at once: they are rounded whenever they are stored.
bool rounds(tensor::DType dtype) { return dtype == tensor::DType::kBF16 || dtype == tensor::DType::kF16; }

void copy(const TensorView& from, const TensorView& to) {
  if (from.data != to.data && from.bytes() > 0)
    std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes()));
}

// `count` pieces of `piece` bytes, so many bytes apart.
void copy_strided(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t piece,
                  int64_t count) {
  for (int64_t i = 0; i < count && piece > 0; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(piece));
}

uint32_t hash_of(const std::string& text) {
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

class ScheduledCommunicator final : public Communicator {
 public:
  ScheduledCommunicator(std::shared_ptr<Core> core, std::vector<Peer> peers, int own)
      : core_(std::move(core)), peers_(std::move(peers)), own_(own) {
    for (const Peer& peer : peers_) {
      int& users = core_->channels[{peer.rank, peer.channel}];
      INGOT_CHECK(++users == 1, "channel {} to rank {} has two communicators", peer.channel, peer.rank);
    }
  }
  ~ScheduledCommunicator() override {
    for (const Peer& peer : peers_) core_->channels.erase({peer.rank, peer.channel});
    for (std::unique_ptr<Plan>& plan : plans_) discard(std::move(plan->operation));
    for (Posted& posted : posted_) discard(std::move(posted.operation));
    if (rows_ && rows_->plan) discard(std::move(rows_->plan->operation));
  }
  ScheduledCommunicator(const ScheduledCommunicator&) = delete;
  ScheduledCommunicator& operator=(const ScheduledCommunicator&) = delete;

  int size() const override { return static_cast<int>(peers_.size()); }
  int index() const override { return own_; }

  Result<void> all_reduce(const TensorView& in, const TensorView& out, const CallOptions& options) override {
    INGOT_CHECK(in.elements() == out.elements() && in.dtype == out.dtype, "all_reduce of {} into {}",
                in.shape.to_string(), out.shape.to_string());
    if (size() == 1) return copy(in, out), Result<void>();
    return run({Collective::kAllReduce, in.elements()}, in.dtype, in.bytes(), in.as<std::byte>(),
               out.as<std::byte>(), -1, options);
  }

  Result<void> reduce_scatter(const TensorView& in, const TensorView& out, int dim,
                              const CallOptions& options) override {
    const Blocks part = blocks_of(out.shape, dim);
    INGOT_CHECK(in.elements() == out.elements() * size() && in.dtype == out.dtype,
                "reduce_scatter of {} into {} over {} members", in.shape.to_string(), out.shape.to_string(),
                size());
    if (size() == 1) return copy(in, out), Result<void>();
    std::byte* from = in.as<std::byte>();
    if (part.outer > 1) {  // parts of members lie apart: each is brought together first
      INGOT_TRY_VOID(grow(packed_, in.bytes()));
      const int64_t run_bytes = part.inner * tensor::size_of(in.dtype);
      for (int member = 0; member < size(); ++member)
        copy_strided(from + member * run_bytes, run_bytes * size(), packed_.data() + member * out.bytes(),
                     run_bytes, run_bytes, part.outer);
      from = packed_.data();
    }
    return run({Collective::kReduceScatter, in.elements()}, in.dtype, in.bytes(), from, out.as<std::byte>(),
               dim, options);
  }

  Result<void> all_gather(const TensorView& in, const TensorView& out, int dim,
                          const CallOptions& options) override {
    const Blocks part = blocks_of(in.shape, dim);
    INGOT_CHECK(out.elements() == in.elements() * size() && in.dtype == out.dtype,
                "all_gather of {} into {} over {} members", in.shape.to_string(), out.shape.to_string(),
                size());
    if (size() == 1) return copy(in, out), Result<void>();
    const bool apart = part.outer > 1;
    if (apart) INGOT_TRY_VOID(grow(packed_, out.bytes()));
    INGOT_TRY_VOID(run({Collective::kAllGather, out.elements()}, in.dtype, in.bytes(), in.as<std::byte>(),
                       apart ? packed_.data() : out.as<std::byte>(), dim, options));
    if (apart) {
      const int64_t run_bytes = part.inner * tensor::size_of(in.dtype);
      for (int member = 0; member < size(); ++member)
        copy_strided(packed_.data() + member * in.bytes(), run_bytes,
                     out.as<std::byte>() + member * run_bytes, run_bytes * size(), run_bytes, part.outer);
    }
    return {};
  }

  Result<void> all_to_all(const TensorView& in, std::span<const int64_t> sent_rows, const TensorView& out,
                          std::span<const int64_t> received_rows, const CallOptions& options) override {
    check_rows(in, sent_rows, size());
    check_rows(out, received_rows, size());
    if (size() == 1) return copy(in, out), Result<void>();
    if (broken_) return *broken_;
    const int64_t row_bytes = bytes_of_row(in), element = tensor::size_of(in.dtype);
    std::vector<int64_t>& sent = row_elements_[0];
    std::vector<int64_t>& received = row_elements_[1];
    const bool same = rows_ && std::ranges::equal(sent_rows, rows_->sent) &&
                      std::ranges::equal(received_rows, rows_->received) && rows_->row_bytes == row_bytes;
    if (!same) {
      if (!rows_) rows_ = std::make_unique<Rows>();
      sent.clear();
      received.clear();
      for (size_t i = 0; i < sent_rows.size(); ++i) {
        sent.push_back(sent_rows[i] * row_bytes / element);
        received.push_back(received_rows[i] * row_bytes / element);
      }
      rows_->sent.assign(sent_rows.begin(), sent_rows.end());
      rows_->received.assign(received_rows.begin(), received_rows.end());
      rows_->row_bytes = row_bytes;
      cost::CollectiveCall call{Collective::kAllToAll};
      call.sent = sent;
      call.received = received;
      rows_->plan = make_plan(call, in.dtype);
      for (std::vector<int64_t>* bytes : {&sent, &received})
        for (int64_t& count : *bytes) count *= element;
    }
    Operation& operation = *rows_->plan->operation;
    operation.sent_bytes = sent;
    operation.received_bytes = received;
    return run(*rows_->plan, in.bytes(), in.as<std::byte>(), out.as<std::byte>(), -1, options);
  }

  Result<void> broadcast(const TensorView& inout, int root, const CallOptions& options) override {
    INGOT_CHECK(root >= 0 && root < size(), "broadcast from member {} of {}", root, size());
    if (size() == 1) return {};
    return run({Collective::kBroadcast, inout.elements(), root}, inout.dtype, inout.bytes(),
               inout.as<std::byte>(), inout.as<std::byte>(), root, options);
  }

  const cost::CollectiveChoice* planned(const cost::CollectiveCall& call, tensor::DType dtype) override {
    return size() == 1 ? nullptr : &plan_of(call, dtype).choice;
  }

  Result<void> barrier(const CallOptions& options) override {
    if (size() == 1) return {};
    return run({Collective::kBarrier}, tensor::DType::kU8, 0, nullptr, nullptr, -1, options);
  }

  Result<Ticket> post_send(const TensorView& in, int to, int tag, const CallOptions& options) override {
    return post(in, to, tag, true, options);
  }
  Result<Ticket> post_receive(const TensorView& out, int from, int tag, const CallOptions& options) override {
    return post(out, from, tag, false, options);
  }

  Result<void> wait(Ticket ticket, const CallOptions& options) override {
    Posted& posted = posted_[static_cast<size_t>(ticket.index)];
    Result<void> result = core_->engine.wait(*posted.operation, options.timeout);
    if (!result) return remember(std::move(result));
    posted.taken = false;
    return {};
  }

 private:
  struct Plan {
    cost::CollectiveCall call;
    tensor::DType dtype = tensor::DType::kF32;
    std::optional<cost::CollectiveChoice> prescribed;  // when it was made
    cost::CollectiveChoice choice;
    std::unique_ptr<Operation> operation;
    int64_t scratch_bytes = 0;
  };
  struct Rows {  // the last all_to_all
    std::vector<int64_t> sent, received;
    int64_t row_bytes = 0;
    std::unique_ptr<Plan> plan;
  };
  struct Posted {
    int member = 0;
    bool send = false, taken = false;
    std::unique_ptr<Operation> operation;
  };
  struct Count {
    int member = 0, tag = 0;
    bool send = false;
    uint64_t messages = 0;
  };

  void discard(std::unique_ptr<Operation> operation) { core_->engine.discard(std::move(operation)); }

  Result<void> remember(Result<void> result) {
    if (!result) broken_ = result.error();
    return result;
  }

  static Result<void> grow(Buffer& buffer, int64_t bytes) {
    if (buffer.bytes() >= bytes) return {};
    auto larger = Buffer::allocate(bytes);
    if (!larger) return std::move(larger).take_error().context("memory of a collective");
    buffer = std::move(*larger);
    return {};
  }

  cost::CollectiveChoice choose(const cost::CollectiveCall& call, tensor::DType dtype) const {
    const int64_t size = tensor::size_of(dtype);
    const bool at_once = rounds(dtype);
    cost::Nodes nodes;
    for (const Peer& peer : peers_) nodes.push_back(core_->nodes[static_cast<size_t>(peer.rank)]);
    const auto& prescribed = core_->prescribed;
    if (!prescribed || !cost::applies(prescribed->algorithm, call.operation, this->size(), at_once))
      return cost::choose_collective(call, size, nodes, at_once, core_->fabric);
    cost::CollectiveChoice choice = *prescribed;
    choice.seconds =
        cost::collective_seconds(call, size, choice.algorithm, choice.piece_bytes, nodes, core_->fabric);
    return choice;
  }

  std::unique_ptr<Plan> make_plan(const cost::CollectiveCall& call, tensor::DType dtype) {
    const int64_t size = tensor::size_of(dtype);
    const cost::CollectiveChoice choice = choose(call, dtype);
    cost::Schedule schedule = cost::make_schedule(call, this->size(), own_, choice.algorithm,
                                                  std::max<int64_t>(1, choice.piece_bytes / size));
    auto plan = std::make_unique<Plan>();
    plan->call = call;
    plan->call.sent = plan->call.received = {};
    plan->dtype = dtype;
    plan->scratch_bytes = schedule.scratch_elements * size;
    plan->prescribed = core_->prescribed;
    plan->choice = choice;
    plan->operation = std::make_unique<Operation>(std::move(schedule), peers_);
    plan->operation->name = cost::name_of(call.operation);
    plan->operation->header.dtype = dtype;
    plan->operation->header.plan =
        hash_of(fmt::format("{}, pieces of {}", cost::name_of(choice.algorithm), choice.piece_bytes));
    return plan;
  }

  Result<void> run(const cost::CollectiveCall& call, tensor::DType dtype, int64_t bytes, std::byte* in,
                   std::byte* out, int detail, const CallOptions& options) {
    return run(plan_of(call, dtype), bytes, in, out, detail, options);
  }

  Plan& plan_of(const cost::CollectiveCall& call, tensor::DType dtype) {
    const auto found = std::ranges::find_if(plans_, [&](const std::unique_ptr<Plan>& plan) {
      return plan->call.operation == call.operation && plan->call.elements == call.elements &&
             plan->call.root == call.root && plan->dtype == dtype && plan->prescribed == core_->prescribed;
    });
    if (found != plans_.end()) return **found;
    return *plans_.emplace_back(make_plan(call, dtype));
  }

  Result<void> run(Plan& plan, int64_t bytes, std::byte* in, std::byte* out, int detail,
                   const CallOptions& options) {
    if (broken_) return *broken_;
    INGOT_TRY_VOID(grow(scratch_, plan.scratch_bytes));
    Operation& operation = *plan.operation;
    operation.area = {in, out, scratch_.data()};
    operation.header.bytes = bytes;
    operation.header.detail = detail;
    operation.header.sequence = sequence_++;
    operation.options = options;
    return remember(core_->engine.run(operation));
  }

  Result<Ticket> post(const TensorView& view, int member, int tag, bool send, const CallOptions& options) {
    INGOT_CHECK(member >= 0 && member < size() && member != own_, "a message between members {} and {} of {}",
                own_, member, size());
    INGOT_CHECK(tag >= 0 && tag <= kMaxTag, "a message of tag {}", tag);
    if (broken_) return *broken_;
    auto free = std::ranges::find_if(posted_, [&](const Posted& posted) {
      return !posted.taken && posted.member == member && posted.send == send;
    });
    if (free == posted_.end()) free = posted_.insert(posted_.end(), make_posted(member, send));
    free->taken = true;
    Operation& operation = *free->operation;
    operation.area = {view.as<std::byte>(), view.as<std::byte>(), nullptr};
    operation.resize(view.elements());
    operation.header.dtype = view.dtype;
    operation.header.bytes = view.bytes();
    operation.header.detail = tag;
    operation.header.sequence = count_of(member, tag, send)++;
    constexpr int kCountBits = 12;
    operation.mark =
        static_cast<uint64_t>(tag) << kCountBits | (operation.header.sequence & ((1U << kCountBits) - 1));
    operation.options = options;
    core_->engine.post(operation);
    return Ticket{static_cast<int32_t>(free - posted_.begin())};
  }

  Posted make_posted(int member, bool send) {
    cost::Schedule schedule;
    cost::Step& step = schedule.steps.emplace_back();
    step.kind = send ? cost::Step::Kind::kSend : cost::Step::Kind::kReceive;
    step.peer = member;
    step.to.area = cost::Area::kOut;
    step.sources = send ? 1 : 0;
    if (send) schedule.sources.push_back({cost::Area::kIn, 0});
    Posted posted;
    posted.member = member;
    posted.send = send;
    posted.operation = std::make_unique<Operation>(std::move(schedule), peers_);
    posted.operation->name = send ? "send" : "receive";
    return posted;
  }

  uint64_t& count_of(int member, int tag, bool send) {
    for (Count& count : counts_)
      if (count.member == member && count.tag == tag && count.send == send) return count.messages;
    return counts_.emplace_back(Count{member, tag, send, 0}).messages;
  }

  std::shared_ptr<Core> core_;
  std::vector<Peer> peers_;
  int own_;
  uint64_t sequence_ = 0;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::unique_ptr<Rows> rows_;
  std::array<std::vector<int64_t>, 2> row_elements_;
  std::vector<Posted> posted_;  // grows to the most that were outstanding at once
  std::vector<Count> counts_;
  Buffer scratch_, packed_;
  std::optional<Error> broken_;
};

class ScheduledTransport final : public Transport {
 public:
  ScheduledTransport(std::unique_ptr<Messages> messages, const EngineOptions& options)
      : core_(std::make_shared<Core>(std::move(messages), options)) {}

  int rank() const override { return core_->engine.messages().rank(); }
  int world() const override { return core_->engine.messages().world(); }

  Result<std::unique_ptr<Communicator>> group(const graph::Mesh& mesh, graph::AxisMask axes) override {
    INGOT_TRY_VOID(check_world(mesh, world()));
    return make(axes, mesh.members(rank(), axes));
  }
  Result<std::unique_ptr<Communicator>> group(std::span<const int> ranks) override {
    INGOT_TRY_VOID(check_members(ranks, rank(), world()));
    return make(kListed, ranks);
  }

  void on_warning(std::function<void(const std::string&)> listener) override {
    core_->engine.on_warning(std::move(listener));
  }
  ProgressPage* page() override { return core_->engine.page(); }

  Result<void> use_fabric(const cost::Fabric& fabric, const CallOptions& options) override {
    if (world() == 1) return {};
    INGOT_TRY(const std::unique_ptr<Communicator> all, everybody());
    auto node = static_cast<int64_t>(hash64(core_->engine.node()));
    std::vector<int64_t> nodes(static_cast<size_t>(world()));
    std::string text = cost::to_json(fabric);
    auto bytes = std::ssize(text);
    const auto view = [](auto& data, tensor::DType dtype, int64_t count) {
      return TensorView{&data, dtype, tensor::Shape{count}};
    };
    INGOT_TRY_VOID(all->all_gather(view(node, tensor::DType::kI64, 1),
                                   view(nodes.front(), tensor::DType::kI64, world()), 0, options));
    INGOT_TRY_VOID(all->broadcast(view(bytes, tensor::DType::kI64, 1), 0, options));
    text.resize(static_cast<size_t>(bytes));
    INGOT_TRY_VOID(all->broadcast(view(text.front(), tensor::DType::kU8, bytes), 0, options));
    INGOT_TRY(core_->fabric, cost::fabric_from_json(text));
    for (size_t i = 0; i < nodes.size(); ++i)
      core_->nodes[i] = static_cast<int>(std::ranges::find(nodes, nodes[i]) - nodes.begin());
    return {};
  }

  std::span<const int> nodes() const override { return core_->nodes; }

  void prescribe(const cost::CollectiveChoice* choice) override {
    core_->prescribed = choice == nullptr ? std::nullopt : std::optional(*choice);
  }

  Result<void> leave(const CallOptions& options) override {
    INGOT_TRY(const std::unique_ptr<Communicator> all, everybody());
    INGOT_TRY_VOID(all->barrier(options));
    return core_->engine.close();
  }

 private:
  Result<std::unique_ptr<Communicator>> everybody() {
    std::vector<int> all(static_cast<size_t>(world()));
    std::iota(all.begin(), all.end(), 0);
    return group(all);
  }

  static constexpr int kListed = 1 << graph::kAxisCount;  // made of a list of ranks, not of axes

  // Channels: for each set of axes so many, for lists the rest; two members number the groups of a kind that
  // they share alike.
  std::unique_ptr<Communicator> make(int kind, std::span<const int> ranks) {
    constexpr uint64_t kPerMask = 64, kForLists = uint64_t{1} << (kTagChannelBits - 1);
    static_assert(kPerMask * kListed <= kForLists);
    std::vector<Peer> peers;
    int own = 0;
    for (const int rank : ranks) {
      const uint64_t ordinal = made_[{kind, rank}]++;
      const uint64_t channel = kind == kListed ? kForLists + ordinal % kForLists
                                               : static_cast<uint64_t>(kind) * kPerMask + ordinal % kPerMask;
      if (rank == this->rank()) own = static_cast<int>(peers.size());
      peers.push_back({rank, channel});
    }
    return std::make_unique<ScheduledCommunicator>(core_, std::move(peers), own);
  }

  std::shared_ptr<Core> core_;
  std::map<std::pair<int, int>, uint64_t> made_;  // groups so far, by kind and member
};

}  // namespace

std::unique_ptr<Transport> make_scheduled_transport(std::unique_ptr<Messages> messages,
                                                    const EngineOptions& options) {
  return std::make_unique<ScheduledTransport>(std::move(messages), options);
}

}  // namespace ingot::comm
