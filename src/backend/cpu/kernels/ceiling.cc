#include "backend/cpu/kernels/ceiling.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "backend/cpu/kernels/bf16.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/onednn_product.h"
#include "backend/cpu/kernels/product_plan.h"

namespace ingot::backend::cpu {
namespace {

using tensor::Buffer;
using tensor::DType;

enum class Kind : uint8_t { kForward, kInputGradient, kWeightGradient };

struct ProductCase {
  const char* name;
  Kind kind;
  int64_t rows, out, in;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(out) * static_cast<double>(in);
  }
};

// 2048³, and the three products of a 4096 × 768 × 3072 layer.
constexpr std::array<ProductCase, 4> kCases = {
    {{"2048^3", Kind::kForward, 2048, 2048, 2048},
     {"4096x768x3072 forward", Kind::kForward, 4096, 3072, 768},
     {"4096x768x3072 input gradient", Kind::kInputGradient, 4096, 3072, 768},
     {"4096x768x3072 weight gradient", Kind::kWeightGradient, 4096, 3072, 768}}};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

struct Ceiling::State {
  State(const Cpu& c, DType type) : cpu(c), dtype(type) {}

  const Cpu cpu;  // the pool is the caller's
  const DType dtype;
  Buffer a, y, packed, weights, gradient, workspace;
  std::vector<std::unique_ptr<OneDnnProduct>> library;  // by case; null where it has no such product
  size_t best_case = 0;
  bool best_is_library = false;

  std::span<std::byte> packed_bytes() const { return {packed.data(), static_cast<size_t>(packed.bytes())}; }

  void run(const ProductCase& c, bool by_library, size_t index) const {
    if (by_library) return library[index]->run(cpu, a.data(), weights.data(), y.data());
    const int64_t in = c.kind == Kind::kInputGradient ? c.out : c.in;
    const int64_t out = c.kind == Kind::kInputGradient ? c.in : c.out;
    if (c.kind != Kind::kWeightGradient) {
      product(cpu, {.a = {a.data(), dtype, {c.rows, in}},
                    .packed = packed_bytes(),
                    .bias = {},
                    .addend = {},
                    .y = {y.data(), dtype, {c.rows, out}}});
      return;
    }
    // The product alone, on operands that are packed already: packing is the training step's cost, not the
    // machine's.
    const GradientPlan plan = plan_gradient(dtype, c.rows, c.out, c.in);
    run_gradient(cpu, dtype,
                 {.a = workspace.data(),
                  .b = workspace.data() + plan.pack8_bytes,
                  .reduction = plan.k_stride,
                  .k_stride = plan.k_stride,
                  .c = reinterpret_cast<float*>(gradient.data()),
                  .c_stride = c.in,
                  .add = false,
                  .rows = c.out,
                  .columns = c.in});
  }

  double time(size_t index, bool by_library) const {
    const double begin = now_s();
    run(kCases[index], by_library, index);
    return now_s() - begin;
  }
};

Ceiling::Ceiling() = default;
Ceiling::~Ceiling() = default;

Result<std::unique_ptr<Ceiling>> Ceiling::create(const Cpu& cpu, DType dtype) {
  std::unique_ptr<Ceiling> ceiling(new Ceiling());
  ceiling->state_ = std::make_unique<State>(cpu, dtype);
  State& s = *ceiling->state_;
  const int64_t element = tensor::size_of(dtype);
  constexpr int64_t kRows = 4096, kWide = 3072, kNarrow = 768, kSquare = int64_t{2048} * 2048;
  const int64_t weights = std::max(kSquare, kWide * kNarrow);
  const std::array<std::pair<Buffer*, int64_t>, 6> parts = {
      {{&s.a, kRows * kWide * element},
       {&s.y, kRows * kWide * element},
       {&s.packed, weights * element},
       {&s.weights, weights * element},
       {&s.gradient, kWide * kNarrow * 4},
       {&s.workspace, weight_gradient_workspace_bytes(dtype, kRows, kWide, kNarrow)}}};
  for (const auto& [buffer, bytes] : parts) {
    INGOT_TRY(*buffer, Buffer::allocate(bytes));
    // One value everywhere: products of finite numbers, and every page of its own.
    if (dtype == DType::kBF16) {
      std::fill_n(reinterpret_cast<Bf16*>(buffer->data()), bytes / 2, to_bf16(0.01F));
    } else {
      std::fill_n(reinterpret_cast<float*>(buffer->data()), bytes / 4, 0.01F);
    }
  }
  for (const ProductCase& c : kCases) {
    const bool input = c.kind == Kind::kInputGradient;
    s.library.push_back(
        c.kind == Kind::kWeightGradient
            ? nullptr
            : OneDnnProduct::create(dtype, c.rows, input ? c.out : c.in, input ? c.in : c.out));
  }
  return ceiling;
}

std::vector<CeilingEntry> Ceiling::measure(int repetitions) {
  State& s = *state_;
  std::vector<CeilingEntry> entries;
  double best = 0;
  for (size_t i = 0; i < kCases.size(); ++i) {
    for (const bool by_library : {false, true}) {
      if (by_library && s.library[i] == nullptr) continue;
      s.time(i, by_library);  // warms up
      std::vector<double> seconds;
      for (int r = 0; r < std::max(1, repetitions); ++r) seconds.push_back(s.time(i, by_library));
      const double rate = kCases[i].flops() / median(seconds);
      entries.push_back({std::string(kCases[i].name) + (by_library ? ", oneDNN" : ", ours"), rate});
      if (rate <= best) continue;
      best = rate;
      s.best_case = i;
      s.best_is_library = by_library;
    }
  }
  return entries;
}

double Ceiling::sample() {
  const double seconds = state_->time(state_->best_case, state_->best_is_library);
  return kCases[state_->best_case].flops() / seconds;
}

}  // namespace ingot::backend::cpu
