#include "graph/ops.h"

#include <array>

#include "base/check.h"
#include "graph/ops/rules.h"

namespace ingot::graph {
namespace {

constexpr auto kExpensive = RecomputeClass::kExpensive;
constexpr auto kElementwise = RecomputeClass::kElementwise;
constexpr auto kRegather = RecomputeClass::kRegather;

// In the order of Op.
constexpr std::array<OpInfo, kOpCount> kOps = {{
    {Op::kEmbed, "embed", kExpensive, false, embed_shape, embed_derivative, embed_cost, embed_partition},
    {Op::kEmbedDw, "embed_dw", kExpensive, false, nullptr, nullptr, embed_cost, nullptr},
    {Op::kLinear, "linear", kExpensive, false, linear_shape, linear_derivative, linear_cost,
     linear_partition},
    {Op::kLinearDx, "linear_dx", kExpensive, false, linear_dx_shape, nullptr, linear_dx_cost, nullptr},
    {Op::kLinearDw, "linear_dw", kExpensive, false, nullptr, nullptr, linear_dw_cost, nullptr},
    {Op::kNorm, "norm", kElementwise, false, norm_shape, norm_derivative, cost_of_bytes, norm_partition},
    {Op::kNormDx, "norm_dx", kElementwise, false, shape_as_input, nullptr, cost_of_bytes, nullptr},
    {Op::kNormDw, "norm_dw", kElementwise, false, nullptr, nullptr, cost_of_bytes, nullptr},
    {Op::kRotary, "rotary", kElementwise, false, shape_as_input, rotary_derivative, cost_of_bytes,
     rotary_partition},
    {Op::kAttention, "attention", kExpensive, false, attention_shape, attention_derivative, attention_cost,
     attention_partition},
    {Op::kAttentionGrad, "attention_grad", kExpensive, false, attention_grad_shape, nullptr,
     attention_grad_cost, nullptr},
    {Op::kActivation, "activation", kElementwise, false, shape_as_input, activation_derivative, cost_of_bytes,
     nullptr},
    {Op::kActivationGrad, "activation_grad", kElementwise, false, activation_grad_shape, nullptr,
     cost_of_bytes, nullptr},
    {Op::kAdd, "add", kElementwise, false, shape_as_input, add_derivative, cost_of_bytes, add_partition},
    {Op::kDropout, "dropout", kElementwise, false, shape_as_input, dropout_derivative, cost_of_bytes,
     dropout_partition},
    {Op::kHeadStats, "head_stats", kExpensive, false, head_stats_shape, nullptr, head_stats_cost, nullptr},
    {Op::kHeadLoss, "head_loss", kExpensive, false, nullptr, head_loss_derivative, head_loss_cost,
     head_loss_partition},
    {Op::kAllReduce, "all_reduce", kExpensive, true, shape_as_input, all_reduce_derivative, all_reduce_cost,
     nullptr},
    {Op::kAllGather, "all_gather", kRegather, true, all_gather_shape, all_gather_derivative, all_gather_cost,
     nullptr},
    {Op::kReduceScatter, "reduce_scatter", kExpensive, true, split_shape, split_derivative,
     reduce_scatter_cost, nullptr},
    {Op::kSlice, "slice", kElementwise, false, split_shape, split_derivative, cost_of_bytes, nullptr},
    {Op::kBroadcastGrad, "broadcast_grad", kElementwise, false, shape_as_input, broadcast_grad_derivative,
     cost_of_bytes, nullptr},
    {Op::kSend, "send", kExpensive, true, nullptr, send_derivative, send_cost, nullptr},
    {Op::kReceive, "receive", kExpensive, true, nullptr, receive_derivative, no_cost, nullptr},
    {Op::kCast, "cast", kElementwise, false, shape_as_input, cast_derivative, cost_of_bytes, nullptr},
    {Op::kPack, "pack", kElementwise, false, nullptr, nullptr, cost_of_bytes, nullptr},
    {Op::kSumSquares, "sum_squares", kExpensive, false, nullptr, nullptr, cost_of_bytes, nullptr},
    {Op::kControl, "control", kExpensive, false, nullptr, nullptr, control_cost, nullptr},
    {Op::kAdamW, "adamw", kExpensive, false, nullptr, nullptr, cost_of_bytes, nullptr},
    {Op::kCacheAppend, "cache_append", kExpensive, false, nullptr, nullptr, cost_of_bytes,
     cache_append_partition},
    {Op::kAttentionCached, "attention_cached", kExpensive, false, attention_cached_shape, nullptr,
     attention_cached_cost, attention_cached_partition},
    {Op::kSampleLogits, "sample_logits", kExpensive, false, nullptr, nullptr, cost_of_bytes, nullptr},
    {Op::kZero, "zero", kElementwise, false, nullptr, nullptr, cost_of_bytes, nullptr},
    {Op::kCopy, "copy", kElementwise, false, shape_as_input, copy_derivative, cost_of_bytes, nullptr},
    {Op::kAttentionMerge, "attention_merge", kElementwise, false, attention_merge_shape, nullptr,
     cost_of_bytes, nullptr},
    {Op::kRingShift, "ring_shift", kExpensive, true, ring_shift_shape, nullptr, ring_shift_cost, nullptr},
    {Op::kAllToAll, "all_to_all", kExpensive, true, nullptr, nullptr, all_to_all_cost, nullptr},
}};

}  // namespace

const OpInfo& info(Op op) {
  const auto index = static_cast<size_t>(op);
  INGOT_CHECK(index < kOps.size() && kOps[index].op == op, "row {} of the table of operations", index);
  return kOps[index];
}

std::span<const OpInfo> all_ops() { return kOps; }

}  // namespace ingot::graph
