#include "comm/fabric_measure.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "comm/sum.h"

namespace ingot::comm {
namespace {

using cost::Collective;
using tensor::Buffer;
using tensor::DType;

constexpr int64_t kElement = 4;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

class Measuring {
 public:
  Measuring(Transport& transport, const cost::Fabric& before, const MeasureOptions& options)
      : transport_(transport), options_(options) {
    result_.fabric = before;
  }

  Result<FabricMeasure> run() {
    INGOT_TRY_VOID(transport_.use_fabric(result_.fabric, options_.call));
    std::vector<int> all(static_cast<size_t>(transport_.world()));
    std::iota(all.begin(), all.end(), 0);
    INGOT_TRY(world_, transport_.group(all));
    const int64_t largest = std::max(*std::ranges::max_element(options_.sizes), kLinkBytes);
    INGOT_TRY(in_, Buffer::allocate(largest));
    INGOT_TRY(out_, Buffer::allocate(largest));
    std::fill_n(floats(in_), largest / kElement, 1.0F);
    std::fill_n(floats(out_), largest / kElement, 1.0F);
    if (transport_.world() > 1) {
      INGOT_TRY_VOID(links());
      INGOT_TRY_VOID(cores());
    }
    INGOT_TRY_VOID(sums());
    if (transport_.world() == 1) return std::move(result_);
    INGOT_TRY_VOID(transport_.use_fabric(result_.fabric, options_.call));
    for (const int64_t bytes : options_.sizes) INGOT_TRY_VOID(algorithms(bytes));
    return std::move(result_);
  }

 private:
  static constexpr int64_t kLinkBytes = 16 << 20;
  static constexpr int kFewest = 5, kMost = 200;  // repetitions

  static float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
  static TensorView view(const Buffer& buffer, int64_t bytes) {
    return {buffer.data(), DType::kF32, tensor::Shape{bytes / kElement}};
  }

  // Medians of all ranks' times, then their greatest: the same number everywhere.
  template <class Body>
  Result<double> time(Communicator& group, const Body& body) {
    std::vector<double> times;
    INGOT_TRY_VOID(body());  // makes plans, touches pages
    INGOT_TRY_VOID(group.barrier(options_.call));
    int repetitions = kFewest;
    for (int i = 0; i < repetitions; ++i) {
      INGOT_TRY_VOID(group.barrier(options_.call));
      const int64_t begin = monotonic_ns();
      INGOT_TRY_VOID(body());
      times.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-9);
      if (i > 0) continue;
      INGOT_TRY(const double first, agree(group, times.front()));
      repetitions = static_cast<int>(
          std::clamp(options_.seconds_each / std::max(first, 1e-6), double{kFewest}, double{kMost}));
    }
    return agree(group, median(times));
  }

  Result<double> agree(Communicator& group, double value) {
    std::vector<double> values(static_cast<size_t>(group.size()));
    INGOT_TRY_VOID(group.all_gather({&value, DType::kF64, tensor::Shape{1}},
                                    {values.data(), DType::kF64, tensor::Shape{group.size()}}, 0,
                                    options_.call));
    return *std::ranges::max_element(values);
  }

  // Of each class: rank 0 and the first rank that it has such a link to. Others wait at the barrier.
  Result<void> links() {
    const std::span<const int> nodes = transport_.nodes();
    int near = -1, far = -1;
    for (int rank = transport_.world() - 1; rank > 0; --rank) {
      const bool shares = nodes.empty() || nodes[static_cast<size_t>(rank)] == nodes[0];
      (shares ? near : far) = rank;
    }
    result_.has_node = near >= 0;
    result_.has_network = far >= 0;
    if (near >= 0) INGOT_TRY_VOID(link(near, result_.fabric.node));
    if (far >= 0) INGOT_TRY_VOID(link(far, result_.fabric.network));
    return {};
  }

  // Latency: a barrier of two is one message each way at once. Bandwidth: one large message in small pieces
  // is what collectives send; the price of a message comes from smaller pieces.
  Result<void> link(int other, cost::Link& link) {
    const int own = transport_.rank();
    std::vector<double> figures(3);
    if (own == 0 || own == other) {
      const std::vector<int> pair = {0, other};
      INGOT_TRY(const std::unique_ptr<Communicator> group, transport_.group(pair));
      INGOT_TRY(figures[0], time(*group, [&] { return group->barrier(options_.call); }));
      for (const size_t k : {1U, 2U}) {
        const cost::CollectiveChoice choice{{{{2, cost::Pattern::kTree}}},
                                            k == 1 ? kUsualPiece : kSmallPiece};
        transport_.prescribe(&choice);
        auto timed = time(*group, [&] { return group->broadcast(view(in_, kLinkBytes), 0, options_.call); });
        transport_.prescribe(nullptr);
        INGOT_TRY(figures[k], std::move(timed));
      }
    }
    TensorView all{figures.data(), DType::kF64, tensor::Shape{3}};
    INGOT_TRY_VOID(world_->broadcast(all, 0, options_.call));
    link.latency = figures[0];
    link.bandwidth = static_cast<double>(kLinkBytes) / figures[1];
    constexpr double kMessages =
        static_cast<double>(kLinkBytes) / kSmallPiece - static_cast<double>(kLinkBytes) / kUsualPiece;
    result_.fabric.message_seconds = std::max(1e-7, (figures[2] - figures[1]) / kMessages);
    return {};
  }
  static constexpr int64_t kUsualPiece = 256 << 10, kSmallPiece = 32 << 10;

  // Cores that the ranks of the first node have between them.
  Result<void> cores() {
    const std::span<const int> nodes = transport_.nodes();
    std::vector<double> cores(static_cast<size_t>(transport_.world()));
    double own = options_.cores_of_this_rank;
    INGOT_TRY_VOID(world_->all_gather({&own, DType::kF64, tensor::Shape{1}},
                                      {cores.data(), DType::kF64, tensor::Shape{transport_.world()}}, 0,
                                      options_.call));
    double sum = 0;
    for (size_t rank = 0; rank < cores.size(); ++rank)
      if (nodes.empty() || nodes[rank] == nodes[0]) sum += cores[rank];
    double online = std::thread::hardware_concurrency();
    INGOT_TRY_VOID(world_->broadcast({&online, DType::kF64, tensor::Shape{1}}, 0, options_.call));
    result_.fabric.cores_per_node = static_cast<int>(std::min(sum, online));
    return {};
  }

  // A received piece, still in cache, onto an operand from memory.
  Result<void> sums() {
    std::vector<double> times;
    for (int i = 0; i < kFewest; ++i) {
      const int64_t begin = monotonic_ns();
      for (int64_t at = 0; at + kUsualPiece <= kLinkBytes; at += kUsualPiece) {
        const void* parts[] = {out_.data() + at, in_.data()};
        void* const to = out_.data() + at;
        sum_in_order(DType::kF32, parts, 0, kUsualPiece / kElement, std::span<void* const>(&to, 1), 0);
      }
      times.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-9);
    }
    double seconds = median(times);
    INGOT_TRY_VOID(world_->broadcast({&seconds, DType::kF64, tensor::Shape{1}}, 0, options_.call));
    result_.fabric.sum_bandwidth = static_cast<double>(kLinkBytes) / seconds;
    return {};
  }

  Result<void> algorithms(int64_t bytes) {
    const cost::CollectiveCall call{Collective::kAllReduce, bytes / kElement};
    const auto all_reduce = [&] {
      return world_->all_reduce(view(in_, bytes), view(out_, bytes), options_.call);
    };
    const cost::CollectiveChoice* const planned = world_->planned(call, DType::kF32);
    if (planned == nullptr) {
      INGOT_TRY(const double seconds, time(*world_, all_reduce));
      result_.collectives.push_back({call.operation, bytes, "", 0, seconds, 0, true});
      return {};
    }
    const cost::CollectiveChoice chosen = *planned;
    cost::Nodes nodes(transport_.nodes().begin(), transport_.nodes().end());
    for (const cost::Algorithm& algorithm : cost::candidates(call.operation, nodes, false, result_.fabric)) {
      const cost::CollectiveChoice choice{algorithm, chosen.piece_bytes};
      transport_.prescribe(&choice);
      const double predicted = world_->planned(call, DType::kF32)->seconds;
      auto timed = time(*world_, all_reduce);
      transport_.prescribe(nullptr);
      INGOT_TRY(const double seconds, std::move(timed));
      result_.collectives.push_back({call.operation, bytes, cost::name_of(algorithm), choice.piece_bytes,
                                     seconds, predicted, algorithm == chosen.algorithm});
    }
    return {};
  }

  Transport& transport_;
  const MeasureOptions& options_;
  FabricMeasure result_;
  std::unique_ptr<Communicator> world_;
  Buffer in_, out_;
};

}  // namespace

Result<FabricMeasure> measure_fabric(Transport& transport, const cost::Fabric& before,
                                     const MeasureOptions& options) {
  return Measuring(transport, before, options).run();
}

}  // namespace ingot::comm
