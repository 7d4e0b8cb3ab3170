#include "train/batch_views.h"

namespace ingot::train {
namespace {

template <class T>
std::span<T> row(const runtime::Executor& executor, const std::string& name, int side, int64_t micro,
                 int64_t size) {
  const tensor::TensorView view = executor.input(name, side);
  if (view.data == nullptr) return {};
  return {view.as<T>() + micro * size, static_cast<size_t>(size)};
}

}  // namespace

data::Slice slice_of(const graph::Mesh& mesh, int rank, int64_t seq_len) {
  const int cp = mesh.size(graph::Axis::kCp);
  if (cp == 1) return {seq_len};
  return {seq_len, graph::context_positions(seq_len, cp, mesh.coordinate(rank, graph::Axis::kCp))};
}

data::StepBuffer batch_views(const runtime::Executor& executor, int side, int64_t batch, int64_t width) {
  data::StepBuffer buffer;
  const int64_t tokens = batch * width;
  for (int64_t micro = 0; micro < executor.micro_batches(); ++micro) {
    buffer.push_back({.batch = batch,
                      .seq_len = width,
                      .tokens = row<int32_t>(executor, "batch.tokens", side, micro, tokens),
                      .labels = row<int32_t>(executor, "batch.labels", side, micro, tokens),
                      .loss_mask = row<float>(executor, "batch.loss_mask", side, micro, tokens),
                      .position = row<int32_t>(executor, "batch.position", side, micro, tokens),
                      .doc_start = row<int32_t>(executor, "batch.doc_start", side, micro, tokens),
                      .sample = row<int64_t>(executor, "batch.sample", side, micro, batch)});
  }
  return buffer;
}

}  // namespace ingot::train
