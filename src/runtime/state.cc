#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "graph/ops.h"
#include "graph/ownership.h"
#include "runtime/runtime.h"

namespace ingot::runtime {

using tensor::TensorView;

Result<void> State::reserve(const graph::Program& program) {
  for (const graph::BufferPlan& plan : program.code->buffers) {
    if (plan.space != graph::Space::kState && plan.space != graph::Space::kDerived) continue;
    const auto found = slots_.find(plan.name);
    if (found != slots_.end()) {
      const TensorView& held = found->second.view;
      if (held.elements() == plan.elements && held.dtype == plan.dtype) continue;
      return invalid(
          fmt::format("buffer {} holds {} elements of {}, this program wants {} of {}: programs that share a "
                      "state need the same parameters, layout and precision",
                      plan.name, held.elements(), tensor::name_of(held.dtype), plan.elements,
                      tensor::name_of(plan.dtype)));
    }
    auto memory = tensor::Buffer::allocate(plan.bytes());
    if (!memory) return std::move(memory).take_error().context("buffer " + plan.name);
    Slot slot;
    slot.memory = std::move(*memory);
    slot.view = {slot.memory.data(), plan.dtype,
                 plan.shape.rank() > 0 ? plan.shape : tensor::Shape{plan.elements}};
    slots_.emplace(plan.name, std::move(slot));
  }
  return {};
}

TensorView State::find(const std::string& buffer) const {
  const auto found = slots_.find(buffer);
  return found == slots_.end() ? TensorView{} : found->second.view;
}

std::vector<State::Entry> State::entries(const graph::Program& program, int rank) const {
  constexpr std::array<std::string_view, 3> kKinds = {"param", "exp_avg", "exp_avg_sq"};
  const graph::StageCode& code = *program.code;
  const std::vector<graph::Parameter>& parameters = code.chunks.front().parameters;
  std::vector<Entry> result;
  for (const graph::Bucket& bucket : code.buckets) {
    for (const std::string_view kind : kKinds) {
      const TensorView whole = find(fmt::format("{}.{}", kind, bucket.id));
      if (whole.data == nullptr) continue;
      for (size_t i = 0; i < bucket.parameters.size(); ++i) {
        const graph::Parameter& parameter = parameters[static_cast<size_t>(bucket.parameters[i])];
        const graph::Stretch held = graph::held_stretch(bucket, i, parameter, kind, program.layout, rank);
        if (held.count == 0) continue;
        const bool cut = bucket.shard_axes != 0 && graph::cut_by_zero(kind, program.layout.zero_stage);
        const int64_t begin =
            cut ? bucket.shard_elements * program.layout.mesh.index(rank, bucket.shard_axes) : 0;
        std::byte* at =
            whole.as<std::byte>() + (bucket.offsets[i] + held.first - begin) * tensor::size_of(whole.dtype);
        const tensor::Shape shape = cut ? tensor::Shape{held.count} : parameter.stored;
        result.push_back(
            {parameter.name, bucket.parameters[i], std::string(kind), {at, whole.dtype, shape}, held.first});
      }
    }
  }
  return result;
}

int64_t State::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, slot] : slots_) sum += slot.view.bytes();
  return sum;
}

void State::start_scalars(double loss_scale) {
  const TensorView scalars = find("control.scalars");
  INGOT_CHECK(scalars.data != nullptr, "the state has no scalars: reserve a program first");
  std::fill_n(scalars.as<double>(), scalars.elements(), 0.0);
  scalars.as<double>()[graph::kLossScale] = loss_scale;
}

}  // namespace ingot::runtime
