#include "train/weights.h"

#include <algorithm>
#include <cstring>

#include "model/model.h"

namespace ingot::train {
namespace {

using graph::Region;
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

// A vector is a row.
struct Rows {
  int64_t first_row, rows, first_column, columns;
};
Rows rows_of(const Region& region) {
  INGOT_CHECK(region.rank == 1 || region.rank == 2, "a parameter of rank {}", region.rank);
  if (region.rank == 1) return {0, 1, region.first[0], region.count[0]};
  return {region.first[0], region.count[0], region.first[1], region.count[1]};
}

// Calls body(first element of the block, first logical element, count) for each run that is contiguous in
// both.
template <class Body>
void for_each_run(const tensor::Shape& logical, const Region& region, const Body& body) {
  const Rows box = rows_of(region);
  if (box.columns == logical.last()) {  // whole rows follow one another
    body(int64_t{0}, box.first_row * box.columns, box.rows * box.columns);
    return;
  }
  for (int64_t row = 0; row < box.rows; ++row)
    body(row * box.columns, (box.first_row + row) * logical.last() + box.first_column, box.columns);
}

// Cuts the `count` consecutive elements from `first` on of a stored matrix of `width` columns, of which the
// first `columns` are no padding, into boxes of whole rows and parts of rows: body(first element, row,
// column, rows, columns).
template <class Body>
void for_each_box(int64_t first, int64_t count, int64_t width, int64_t rows, int64_t columns,
                  const Body& body) {
  const int64_t end = std::min(first + count, rows * width);
  while (first < end) {
    const int64_t row = first / width, column = first % width;
    const bool many = column == 0 && columns == width && end - first > width;
    const int64_t taken = many ? (end - first) / width * width : std::min(end - first, width - column);
    const int64_t kept = many ? columns : std::min(column + taken, columns) - column;
    if (kept > 0) body(first, row, column, many ? taken / width : 1, kept);
    first += taken;
  }
}

TensorView part_of(const TensorView& view, int64_t first, const tensor::Shape& shape) {
  return {view.as<std::byte>() + first * tensor::size_of(view.dtype), view.dtype, shape};
}

// Whether `rank` writes what it holds of an entry: of the ranks that hold the same, one does, and of the
// stages that share a tied parameter the first.
bool writes_entry(const graph::Program& program, const runtime::State::Entry& entry, int rank) {
  const graph::StageCode& code = *program.code;
  const graph::Parameter& parameter = code.chunks.front().parameters[static_cast<size_t>(entry.index)];
  if (parameter.tied && program.stage != 0) return false;
  graph::AxisMask cut = 0;
  for (const graph::Bucket& bucket : code.buckets) {
    if (graph::cut_by_zero(entry.kind, program.layout.zero_stage) &&
        std::ranges::count(bucket.parameters, entry.index) > 0)
      cut = bucket.shard_axes;
  }
  return graph::writes_region(parameter, program.layout.mesh, rank, cut);
}

}  // namespace

Weights::Weights(RankTeam& team, const std::vector<const graph::Program*>& programs) : team_(team) {
  INGOT_CHECK(static_cast<int>(programs.size()) == team.size(), "{} programs for {} ranks", programs.size(),
              team.size());
  for (int i = 0; i < team.size(); ++i) add_entries(i, *programs[static_cast<size_t>(i)]);
}

void Weights::add_entries(int index, const graph::Program& program) {
  codes_.push_back(program.code);
  const Rank& rank = team_.rank(index);
  for (const runtime::State::Entry& entry : rank.state.entries(program, rank.rank)) {
    const graph::Parameter& parameter =
        program.code->chunks.front().parameters[static_cast<size_t>(entry.index)];
    const auto [found, added] = by_name_.try_emplace({entry.parameter, entry.kind}, tensors_.size());
    if (added) tensors_.push_back({entry.parameter, entry.kind, &parameter, {}});
    Tensor& tensor = tensors_[found->second];
    const Region whole = graph::owned_region(parameter, program.layout.mesh, rank.rank);
    const bool writes = writes_entry(program, entry, rank.rank);
    const Rows box = rows_of(whole);
    for_each_box(
        entry.first, entry.view.elements(), parameter.stored.last(), box.rows, box.columns,
        [&](int64_t first, int64_t row, int64_t column, int64_t rows, int64_t columns) {
          Region region{.rank = whole.rank, .first = whole.first};
          const auto last = static_cast<size_t>(whole.rank - 1);
          region.first[0] += whole.rank == 2 ? row : 0;
          region.first[last] += column;
          region.count[0] = rows;
          region.count[last] = columns;
          const tensor::Shape shape = whole.rank == 2 ? tensor::Shape{rows, columns} : tensor::Shape{columns};
          tensor.blocks.push_back({index, region, part_of(entry.view, first - entry.first, shape), writes});
        });
  }
}

const Weights::Tensor* Weights::find(std::string_view parameter, std::string_view kind) const {
  const auto found = by_name_.find({std::string(parameter), std::string(kind)});
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void Weights::initialise(uint64_t seed) {
  for (const Tensor& tensor : tensors_) {
    for (const Block& block : tensor.blocks) {
      std::memset(block.view.data, 0, static_cast<size_t>(block.view.bytes()));
      if (tensor.kind != "param") continue;
      const auto initialise = [&](int64_t own, int64_t logical, int64_t count) {
        // A value depends on its place alone, so the pieces may be drawn in any order.
        const auto piece = [&](int64_t i, int) {
          const int64_t first = i * kInitPiece, size = std::min(kInitPiece, count - first);
          model::initialise(*tensor.definition, seed, logical + first, size,
                            part_of(block.view, own + first, tensor::Shape{size}));
        };
        team_.rank(block.index).pool->parallel_for((count + kInitPiece - 1) / kInitPiece, piece);
      };
      for_each_run(tensor.definition->logical, block.region, initialise);
    }
  }
  touch();
}

void Weights::gather(const Tensor& tensor, int64_t first, std::span<float> out) const {
  const int64_t end = first + static_cast<int64_t>(out.size());
  for (const Block& block : tensor.blocks) {
    for_each_run(tensor.definition->logical, block.region, [&](int64_t own, int64_t logical, int64_t count) {
      for (int64_t at = std::max(first, logical); at < std::min(end, logical + count); ++at)
        out[static_cast<size_t>(at - first)] = read_element(block.view, own + at - logical);
    });
  }
}

void Weights::scatter(const Tensor& tensor, int64_t first, std::span<const float> in) {
  const int64_t end = first + static_cast<int64_t>(in.size());
  for (const Block& block : tensor.blocks) {
    for_each_run(tensor.definition->logical, block.region, [&](int64_t own, int64_t logical, int64_t count) {
      for (int64_t at = std::max(first, logical); at < std::min(end, logical + count); ++at)
        write_element(block.view, own + at - logical, in[static_cast<size_t>(at - first)]);
    });
  }
}

std::span<float> Weights::direct(const Tensor& tensor) const {
  const TensorView& view = tensor.blocks[0].view;
  if (team_.world() != 1 || view.dtype != DType::kF32 || tensor.blocks.size() != 1) return {};
  return {view.as<float>(), static_cast<size_t>(view.elements())};
}

void Weights::touch() {
  for (int i = 0; i < team_.size(); ++i) team_.rank(i).state.touch_parameters();
}

}  // namespace ingot::train
