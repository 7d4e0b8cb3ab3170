#pragma once
// What a backend says of itself, as plain data. It lies here so that the toolkit plans for a device that it
// cannot run; the backend links the same table (graph/targets/<name>.cc) and asserts at start that it honours
// it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ingot::graph {

enum class Precision : uint8_t { kF64, kF32, kBF16, kF16 };  // of computation; kF64 is for proofs
std::string_view name_of(Precision precision);
Result<Precision> precision_of(std::string_view name);

// A packed copy of a weight [rows, columns] = [out, in]: bytes as a function of its shape.
struct PackedLayout {
  std::string_view name;
  int64_t (*bytes)(int64_t rows, int64_t columns);
};

// Packed layouts of the weight that an operation reads; empty: the plain compute copy. `second` is a further
// copy of the same weight, appended as the last input (head_loss with gradient reads both directions).
struct WeightLayouts {
  std::string_view first, second;
};

// A fused operation: `pattern` names the row in passes/fuse.cc that finds and replaces it.
struct Fusion {
  std::string_view pattern;  // "add+norm", "linear_dx+add", "norm_dx+add", "linear+activation"
};

struct Target {
  std::string_view name;
  int64_t alignment = tensor::kAlignment;
  tensor::MemorySpace space;
  std::vector<Precision> precisions;
  std::vector<Fusion> fusions;  // in the order in which they are tried
  // Null: plain copies everywhere. `with_gradient`: of head_loss.
  WeightLayouts (*weight_layouts)(Op op, Precision precision, bool with_gradient) = nullptr;
  std::vector<PackedLayout> packed;
  // Scratch that a kernel needs besides its operands; upper bound, a function of shapes and threads. Null:
  // none.
  int64_t (*workspace_bytes)(const Graph& graph, const Node& node, int threads) = nullptr;
  bool casts_in_pack = true;  // pack reads the float32 master itself
};

const PackedLayout* find_packed(const Target& target, std::string_view name);

// Rows: "reference", "cpu" (AVX-512 BF16 or the portable path; the same layouts).
std::span<const Target* const> all_targets();
const Target* find_target(std::string_view name);

}  // namespace ingot::graph
