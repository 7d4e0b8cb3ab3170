#include "train/weights.h"

#include <algorithm>
#include <cstring>

#include "graph/ownership.h"
#include "model/model.h"

namespace ingot::train {
namespace {

using tensor::DType;
using tensor::TensorView;

constexpr int64_t kInitPiece = int64_t{1} << 14;

float read_element(const TensorView& view, int64_t index) {
  return view.dtype == DType::kF64 ? static_cast<float>(view.as<double>()[index]) : view.as<float>()[index];
}

void write_element(const TensorView& view, int64_t index, float value) {
  if (view.dtype == DType::kF64) {
    view.as<double>()[index] = static_cast<double>(value);
  } else {
    view.as<float>()[index] = value;
  }
}

// Calls body(first stored element, first logical element, count) for each contiguous run of a region (rank 1
// or 2).
template <class Body>
void for_each_run(const graph::Parameter& parameter, const graph::Region& region, const Body& body) {
  INGOT_CHECK(region.rank >= 1 && region.rank <= 2, "{} has rank {}", parameter.name, region.rank);
  const int64_t rows = region.rank == 2 ? region.count[0] : 1;
  const size_t last = static_cast<size_t>(region.rank - 1);
  const int64_t columns = region.count[last];
  if (region.rank == 2 && columns == parameter.stored.last() && columns == parameter.logical.last()) {
    body(0, region.first[0] * columns, rows * columns);  // whole rows follow one another
    return;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t logical_row = region.rank == 2 ? region.first[0] + row : 0;
    body(row * parameter.stored.last(), logical_row * parameter.logical.last() + region.first[last], columns);
  }
}

const graph::Parameter& definition_of(const graph::Program& program, const std::string& name) {
  for (const graph::Graph& chunk : program.code->chunks) {
    for (const graph::Parameter& parameter : chunk.parameters) {
      if (parameter.name == name) return parameter;
    }
  }
  INGOT_CHECK(false, "no parameter {} in the program", name);
}

}  // namespace

Weights::Weights(RankTeam& team, const graph::Program& program) : team_(team), program_(program) {
  for (int r = 0; r < team.size(); ++r) {
    const auto entries = team.rank(r).state.entries(program, r);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (r == 0) {
        tensors_.push_back(
            {entries[i].parameter, entries[i].kind, &definition_of(program, entries[i].parameter), {}});
      }
      tensors_[i].parts.push_back(entries[i].view);
    }
  }
}

const Weights::Tensor* Weights::find(std::string_view parameter, std::string_view kind) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& tensor) {
    return tensor.parameter == parameter && tensor.kind == kind;
  });
  return found == tensors_.end() ? nullptr : &*found;
}

void Weights::initialise(uint64_t seed) {
  const graph::Mesh& mesh = program_.layout.mesh;
  for (const Tensor& tensor : tensors_) {
    for (int r = 0; r < team_.size(); ++r) {
      const TensorView& part = tensor.parts[static_cast<size_t>(r)];
      std::memset(part.data, 0, static_cast<size_t>(part.bytes()));
      if (tensor.kind != "param") continue;
      const graph::Region region = graph::owned_region(*tensor.definition, mesh, r);
      for_each_run(*tensor.definition, region, [&](int64_t stored, int64_t logical, int64_t count) {
        // A value depends on its place alone, so the pieces may be drawn in any order.
        team_.rank(r).pool->parallel_for((count + kInitPiece - 1) / kInitPiece, [&](int64_t piece, int) {
          const int64_t first = piece * kInitPiece, size = std::min(kInitPiece, count - first);
          TensorView run = part;
          run.data = part.as<std::byte>() + (stored + first) * tensor::size_of(part.dtype);
          run.shape = tensor::Shape{size};
          model::initialise(*tensor.definition, seed, logical + first, size, run);
        });
      });
    }
  }
  touch();
}

void Weights::gather(const Tensor& tensor, std::span<float> out) const {
  const graph::Mesh& mesh = program_.layout.mesh;
  for (int r = 0; r < team_.size(); ++r) {
    if (!graph::writes_region(*tensor.definition, mesh, r)) continue;
    const TensorView& part = tensor.parts[static_cast<size_t>(r)];
    for_each_run(*tensor.definition, graph::owned_region(*tensor.definition, mesh, r),
                 [&](int64_t stored, int64_t logical, int64_t count) {
                   for (int64_t i = 0; i < count; ++i)
                     out[static_cast<size_t>(logical + i)] = read_element(part, stored + i);
                 });
  }
}

void Weights::scatter(const Tensor& tensor, std::span<const float> in) {
  const graph::Mesh& mesh = program_.layout.mesh;
  for (int r = 0; r < team_.size(); ++r) {
    const TensorView& part = tensor.parts[static_cast<size_t>(r)];
    for_each_run(*tensor.definition, graph::owned_region(*tensor.definition, mesh, r),
                 [&](int64_t stored, int64_t logical, int64_t count) {
                   for (int64_t i = 0; i < count; ++i)
                     write_element(part, stored + i, in[static_cast<size_t>(logical + i)]);
                 });
  }
}

std::span<float> Weights::direct(const Tensor& tensor) const {
  const TensorView& part = tensor.parts[0];
  if (team_.size() != 1 || part.dtype != DType::kF32 ||
      !(tensor.definition->stored == tensor.definition->logical))
    return {};
  return {part.as<float>(), static_cast<size_t>(part.elements())};
}

void Weights::touch() {
  for (int r = 0; r < team_.size(); ++r) team_.rank(r).state.touch_parameters();
}

}  // namespace ingot::train
