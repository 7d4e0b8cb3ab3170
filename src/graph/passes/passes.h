#pragma once
// The passes of compile(), in the order in which they run; each is a file of its own in passes/ and none
// includes another. A pass takes the graph of one chunk (or of the whole model, before `stage`) and returns
// it changed. To add one: a file, a declaration here, a call in compile.cc, and its reason in docs/design.md.

#include <optional>

#include "graph/compile.h"
#include "graph/graph.h"

namespace ingot::graph {

// Data type of every value from one table (passes/precision.cc); parameters are float32 masters (float64
// under kF64) and cast where an operation wants less. residual_dtype: of values between blocks, default that
// of computation.
Graph precision_pass(const Graph& forward, Precision precision, std::optional<DType> residual_dtype);

// Gradients are sums over tokens: in half precision they are seeded with the loss scale times 2^-ceil(log2
// T), so that the scale means the same at every sequence length T; else with the loss scale itself.
double gradient_seed(Precision precision, int64_t sequence);

// Placements over tp and cp: stored shapes, conversions as nodes, padding of the vocabulary,
// Parameter::places, stored and partial. `gradient`: the graph will be differentiated. Errors: sizes that the
// mesh cannot divide, with the nearest that work; expert parallelism.
Result<Graph> partition_pass(const Graph& forward, const Mesh& mesh, bool gradient);

}  // namespace ingot::graph
