#pragma once
// The rules of every operation, one file of ops/ each; ops.cc lists them. Internal to graph.

#include <span>
#include <vector>

#include "graph/ops.h"

namespace ingot::graph {

using Outputs = std::vector<Value>;
using Gradients = std::span<const ValueId>;
using InputGradients = std::span<ValueId>;

// A value like `from` for an output: an activation with no name, base or buffer yet.
Value output_like(const Value& from);
// The same with another extent of the last dimension.
Value output_with_last(const Value& from, int64_t logical, int64_t stored);
// An output of every elementwise operation: like input 0.
void shape_as_input(const Graph& graph, const Node& node, Outputs& outputs);

// Bytes of all inputs and outputs: the cost of what is bound by memory.
OpCost cost_of_bytes(const Graph& graph, const Node& node);
double bytes_of(const Graph& graph, const Node& node);
double elements_of(const Graph& graph, ValueId value);  // stored

// A backward node that makes the gradients of `of` (values of the forward pass): outputs are named
// "d.<value>", have their shapes and data types and the places of a gradient. Returns them.
std::vector<ValueId> add_gradients(Graph& graph, const Node& forward, Op op, std::vector<ValueId> inputs,
                                   const std::vector<ValueId>& of, const Attributes& attributes);
// A backward node that adds into the gradients of the parameters behind `weights`.
void add_accumulation(Graph& graph, const Node& forward, Op op, std::vector<ValueId> inputs,
                      const std::vector<ValueId>& weights);

#define INGOT_SHAPE(name) void name(const Graph& graph, const Node& node, Outputs& outputs)
#define INGOT_DERIVATIVE(name) void name(Graph& graph, int node, Gradients outputs, InputGradients inputs)
#define INGOT_COST(name) OpCost name(const Graph& graph, const Node& node)
#define INGOT_PARTITION(name) void name(PartitionContext& context, const Node& node)

INGOT_SHAPE(embed_shape);
INGOT_DERIVATIVE(embed_derivative);
INGOT_COST(embed_cost);
INGOT_PARTITION(embed_partition);

INGOT_SHAPE(linear_shape);
INGOT_DERIVATIVE(linear_derivative);
INGOT_COST(linear_cost);
INGOT_PARTITION(linear_partition);
INGOT_SHAPE(linear_dx_shape);
INGOT_COST(linear_dx_cost);
INGOT_COST(linear_dw_cost);

INGOT_SHAPE(norm_shape);
INGOT_DERIVATIVE(norm_derivative);
INGOT_PARTITION(norm_partition);

INGOT_DERIVATIVE(rotary_derivative);
INGOT_PARTITION(rotary_partition);

INGOT_SHAPE(attention_shape);
INGOT_DERIVATIVE(attention_derivative);
INGOT_COST(attention_cost);
INGOT_PARTITION(attention_partition);
INGOT_SHAPE(attention_grad_shape);
INGOT_COST(attention_grad_cost);
INGOT_SHAPE(attention_merge_shape);

INGOT_DERIVATIVE(activation_derivative);
INGOT_SHAPE(activation_grad_shape);
INGOT_DERIVATIVE(add_derivative);
INGOT_PARTITION(add_partition);
INGOT_DERIVATIVE(dropout_derivative);
INGOT_PARTITION(dropout_partition);

INGOT_SHAPE(head_stats_shape);
INGOT_COST(head_stats_cost);
INGOT_DERIVATIVE(head_loss_derivative);
INGOT_COST(head_loss_cost);
INGOT_PARTITION(head_loss_partition);

INGOT_SHAPE(all_gather_shape);
INGOT_SHAPE(split_shape);  // reduce_scatter, slice
INGOT_DERIVATIVE(all_reduce_derivative);
INGOT_DERIVATIVE(all_gather_derivative);
INGOT_DERIVATIVE(split_derivative);
INGOT_DERIVATIVE(broadcast_grad_derivative);
INGOT_DERIVATIVE(send_derivative);
INGOT_DERIVATIVE(receive_derivative);
INGOT_COST(all_reduce_cost);
INGOT_COST(all_gather_cost);
INGOT_COST(reduce_scatter_cost);
INGOT_COST(all_to_all_cost);
INGOT_SHAPE(ring_shift_shape);
INGOT_COST(ring_shift_cost);
INGOT_COST(send_cost);
INGOT_COST(no_cost);

INGOT_DERIVATIVE(cast_derivative);
INGOT_DERIVATIVE(copy_derivative);

INGOT_COST(control_cost);

INGOT_PARTITION(cache_append_partition);
INGOT_SHAPE(attention_cached_shape);
INGOT_COST(attention_cached_cost);
INGOT_PARTITION(attention_cached_partition);

#undef INGOT_SHAPE
#undef INGOT_DERIVATIVE
#undef INGOT_COST
#undef INGOT_PARTITION

}  // namespace ingot::graph
