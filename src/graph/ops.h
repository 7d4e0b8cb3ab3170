#pragma once
// clang-format off
// The table of operations: for each its name, recompute class and four rules. Operands, in order ([..] is
// optional; "+=" accumulates into a parameter's gradient or into control sums; one value as input and output
// is in place):
//
// embed            ids i32 [B,T], table [V,C]                -> x [B,T,C]
// embed_dw         ids, dx                                   -> += dtable
//                  A table cut by rows over attribute group: ids of other ranks' rows give 0.
// linear           x [..,I], w [O,I], [bias O]               -> y [..,O]; with activation: act(y), y
// linear_dx        dy [..,O], w, [addend [..,I]]             -> dx (+ addend)
// linear_dw        x, dy                                     -> += dw, [+= dbias]
// norm             x [..,C], w [C], [bias]                   -> y
//                  Fused with the residual (expansion add, norm): x, d, w, [bias] -> x + d, norm(x + d).
// norm_dx          x, w, dy, [addend]                        -> dx (+ addend)
// norm_dw          x, dy                                     -> += dw, [+= dbias]
// rotary           x [B,T,H*D], position i32 [B,T], [doc_start] -> y
//                  Halves (i, i + D/2) rotate, as in Hugging Face.
// attention        q [B,Tq,H*D], k, v [B,Tk,G*D], position_q [B,Tq], position_k [B,Tk], doc_start_q [B,Tq]
//                  -> o [B,Tq,H*D], lse f32 [B,Tq,H]; q sees k when doc_start_q <= position_k <= position_q
// attention_grad   q, k, v, o, lse, do, position_q, position_k, doc_start_q -> dq, dk, dv
//                  o and lse may be of more keys than k has: the gradient is that of k's part.
// attention_merge  o, lse, o', lse'                          -> o, lse of both sets of keys together
// activation       x; for swiglu gate, up                    -> y
// activation_grad  x, dy; for swiglu gate, up, dy            -> dx; dgate, dup
// add              a, b                                      -> a + b
// dropout          x [B,T,C], sample i64 [B], position [B,T] -> y (its gradient is itself)
// head_stats       x [B,T,C], w [V,C], labels [B,T]          -> stats f32 [B,T,3]
//                  Maximum, sum of exponentials, logit of the label where this rank holds it, else 0;
//                  tp > 1 only, gathered to [B,T,3*tp].
// head_loss        x, w, labels, loss_mask f32 [B,T], scalars, [stats]
//                  -> += sums (loss, tokens, times attribute weight); with_gradient: also dx [B,T,C], += dw
//                  By chunks of rows, never [B*T,V]. dx and dw are seeded with scalars[loss_scale]
//                  times attribute scale (0: 1), which control undoes.
//                  head_*: rank i of attribute group holds rows [i*n, (i+1)*n) of w, n = stored rows; rows
//                  from attribute vocabulary on are padding, never seen.
// all_reduce, all_gather(dim), reduce_scatter(dim), slice(dim): x -> y
// ring_shift       x, ...                                    -> y, ...: of the member of group before it
// all_to_all       x [rows, ..] -> y [rows, ..]
//                  Of x the first sent_rows[0] rows go to member 0, and so on; y begins with the
//                  received_rows[0] rows of member 0.
// broadcast_grad   x -> x             R -> B, does nothing; its gradient is all_reduce
// send             x ->
// receive          -> x
// cast             x -> y of another dtype, times attribute scale
// copy             x -> y, also between memory spaces
// pack             w [O,I]                                   -> bytes u8 [n] in a layout of the target
// zero             -> x
// sum_squares      g                                         -> += sums[2] (times attribute weight)
// control          sums, scalars, step_block, [parts]        -> sums (zeroed), scalars, [parts (zeroed)]
//                  parts f64 [G*16]: sums by leaf of a tree (graph/sum_tree.h), whose total is added to sums.
// adamw            g, scalars, step_block, w, m, v           -> w, m, v (in place)
// cache_append     k, v, position, cache_k [B,S,G*D], cache_v -> cache_k, cache_v (in place)
// attention_cached q, cache_k, cache_v, position             -> o
// sample_logits    (reserved)
// clang-format on

#include <span>

#include "graph/graph.h"

namespace ingot::graph {

// Contents of the three control blocks, f64 [16] each.
// sums: summed over the world in every step. scalars: state, read by updates. step block: filled by the host.
enum SumIndex : uint8_t { kLossSum, kTokenCount, kSumSquares, kOverflowCount, kRequests /* kRequestCount */ };
enum ScalarIndex : uint8_t {
  kUpdateFactor,  // clip / (norm) where above, with 1/tokens and 1/loss_scale: multiplies a gradient in the
                  // update
  kApply,         // 1, or 0: skip every update of this step
  kLossScale,
  kAdamStep,   // t of the bias corrections, counts applied steps
  kGoodSteps,  // since the loss scale changed
  kLastLoss,
  kLastNorm,
  kLastTokens,
  kLastOverflow,
  kRequestSums,  // kRequestCount of them
};
enum StepIndex : uint8_t {
  kLearningRate,
  kStepNumber,
  kLossScaling /* 0 fixed, 1 dynamic */,
  kOwnRequests = 4
};
// What a rank may ask of all: act after this step. kStop: an interrupt; kFinish: the time given is used up.
enum class Request : uint8_t { kStop, kSave, kShrink, kGrow, kRebalance, kLeave, kFinish };
inline constexpr int kRequestCount = 7;
inline constexpr int kControlBlock = 16;

// What gradients are seeded with by head_loss, and divided by in control: the loss scale, and in half
// precision a factor for the length of a sequence (attribute scale).
inline double gradient_scale(const double* scalars, const Attributes& attributes) {
  return scalars[kLossScale] * (attributes.scale == 0 ? 1 : attributes.scale);
}

enum class RecomputeClass : uint8_t { kExpensive, kElementwise, kRegather };

// Cost of one node on one rank. flops: of matrix products and attention, as MFU counts them (causal attention
// half, scores made again in its gradient not counted); the rest is charged by bytes, read and written.
// sent_bytes: by a ring.
struct OpCost {
  double flops = 0, bytes = 0, sent_bytes = 0;
};

class PartitionContext;  // ops/partition_context.h: what a partition rule may ask and insert

struct OpInfo {
  Op op;
  std::string_view name;
  RecomputeClass recompute;
  bool collective;
  // Outputs from the inputs: shapes (logical and stored), data type, places. Null: outputs are given by who
  // adds the node.
  void (*shape)(const Graph& graph, const Node& node, std::vector<Value>& outputs);
  // Appends the backward nodes of graph.nodes[node], phase kBackward, its layer. `output_gradients[i]` is
  // kNoValue where none flows; sets `input_gradients[i]`, which come as kNoValue. One node per gradient, so
  // that gradients of inputs and of weights are always apart. head_loss is the root: it rewrites its own
  // forward node, which makes its gradients itself. Null: no derivative.
  void (*derivative)(Graph& graph, int node, std::span<const ValueId> output_gradients,
                     std::span<ValueId> input_gradients);
  OpCost (*cost)(const Graph& graph, const Node& node);
  // Copies `node` to the partitioned graph, converting inputs first where it must. Null: elementwise, follows
  // input 0.
  void (*partition)(PartitionContext& context, const Node& node);
};

const OpInfo& info(Op op);
std::span<const OpInfo> all_ops();

}  // namespace ingot::graph
