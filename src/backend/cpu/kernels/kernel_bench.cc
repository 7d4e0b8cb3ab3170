// The CPU kernels of a GPT-2 124M step (B 4, T 1024), each beside the ceiling of matrix products that is
// sampled in turn with it. kernel_bench [--check] [--json FILE] [--f32]

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/bf16.h"
#include "backend/cpu/kernels/ceiling.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/embedding.h"
#include "backend/cpu/kernels/head.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/kernels/optimizer.h"
#include "base/bench_report.h"

namespace ingot::backend::cpu {
namespace {

using tensor::Buffer;
using tensor::DType;
using tensor::Shape;
using tensor::TensorView;

constexpr int64_t kBatch = 4, kSeqLen = 1024, kRows = kBatch * kSeqLen;
constexpr int64_t kChannels = 768, kHeads = 12, kFeedForward = 3072, kVocabulary = 50257, kLayers = 12;
constexpr int kRepetitions = 7;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
class Bench {
 public:
  Bench(const Cpu& cpu, DType dtype, Ceiling& ceiling, BenchReport& report)
      : cpu_(cpu), dtype_(dtype), ceiling_(ceiling), report_(report) {}

  // Random values of a normal network's size; some buffers apart from each other, so that operands come from
  // memory.
  TensorView make(DType dtype, Shape shape, float scale = 1) {
    const int64_t n = shape.elements();
    auto buffer = Buffer::allocate(n * tensor::size_of(dtype));
    INGOT_CHECK(buffer.has_value(), "{} elements", n);
    buffers_.push_back(std::move(buffer).value());
    TensorView view{buffers_.back().data(), dtype, shape};
    uint32_t state = 12345;
    for (int64_t i = 0; i < n; ++i) {
      state = state * 1664525U + 1013904223U;
      const float value = scale * (static_cast<float>(state >> 8) * 0x1p-23F - 1.0F);
      if (dtype == DType::kBF16) view.as<Bf16>()[i] = to_bf16(value);
      if (dtype == DType::kF32) view.as<float>()[i] = value;
    }
    return view;
  }
  std::span<std::byte> bytes(int64_t count) {
    const TensorView view = make(DType::kU8, {count});
    return {view.as<std::byte>(), static_cast<size_t>(count)};
  }

  // Times body beside the ceiling; flops 0: milliseconds alone. `times` of a step; `bar` is the least ratio.
  void run(const std::string& name, double flops, int64_t times, double bar,
           const std::function<void()>& body) {
    body();
    std::vector<double> seconds, ratios;
    for (int r = 0; r < kRepetitions; ++r) {
      const double ceiling = ceiling_.sample();
      const double begin = now_s();
      body();
      seconds.push_back(now_s() - begin);
      ratios.push_back(flops / seconds.back() / (0.5 * (ceiling + ceiling_.sample())));
    }
    const double s = median(seconds);
    const std::string full = fmt::format("{} {}", name, tensor::name_of(dtype_));
    if (flops > 0) {
      report_.note(fmt::format("{}: {:.2f} ms, {:.1f} GFLOP/s", full, s * 1e3, flops / s * 1e-9));
      report_.add(full, median(ratios), "of the best product", bar);
    } else {
      report_.add(full, s * 1e3, "ms");
    }
    step_s_ += s * static_cast<double>(times);
  }

  void products();
  void attention();
  void head();
  void rows();
  void updates();

  const Cpu cpu_;
  const DType dtype_;
  Ceiling& ceiling_;
  BenchReport& report_;
  std::vector<Buffer> buffers_;
  double step_s_ = 0;
};

void Bench::products() {
  struct Linear {
    const char* name;
    int64_t in, out;
  };
  const DType t = dtype_;
  for (const Linear& l : {Linear{"qkv", kChannels, 3 * kChannels}, Linear{"proj", kChannels, kChannels},
                          Linear{"fc", kChannels, kFeedForward}, Linear{"fcproj", kFeedForward, kChannels}}) {
    const TensorView x = make(t, {kRows, l.in}), dy = make(t, {kRows, l.out}), y = make(t, {kRows, l.out});
    const TensorView dx = make(t, {kRows, l.in}), w = make(DType::kF32, {l.out, l.in}, 0.03F);
    const TensorView bias = make(DType::kF32, {l.out}), dw = make(DType::kF32, {l.out, l.in});
    const TensorView db = make(DType::kF32, {l.out});
    const auto forward = bytes(packed_weight_bytes(t, WeightUse::kForward, l.out, l.in));
    const auto backward = bytes(packed_weight_bytes(t, WeightUse::kBackward, l.out, l.in));
    const auto workspace = bytes(weight_gradient_workspace_bytes(t, kRows, l.out, l.in));
    const double flops = 2.0 * static_cast<double>(kRows * l.out * l.in);
    const std::string name = l.name;
    run(name + " pack", 0, 0, 0, [&] { pack_weight(cpu_, {w, t, forward, backward}); });
    run(name + " forward", flops, kLayers, 0.80, [&] { product(cpu_, {x, forward, bias, {}, y}); });
    run(name + " input gradient", flops, kLayers, 0.80, [&] { product(cpu_, {dy, backward, {}, {}, dx}); });
    run(name + " weight gradient", flops, kLayers, 0.70, [&] {
      weight_gradient(cpu_, {x, dy, 1, dw, db, workspace});
    });
    buffers_.clear();
  }
}

void Bench::attention() {
  const DType t = dtype_;
  const AttentionShape shape{kBatch, kSeqLen, kHeads, kHeads, kChannels / kHeads};
  const int64_t stride = 3 * kChannels;
  const TensorView qkv = make(t, {kBatch, kSeqLen, stride}), grad = make(t, {kBatch, kSeqLen, stride});
  const TensorView o = make(t, {kBatch, kSeqLen, kChannels}), grad_o = make(t, {kBatch, kSeqLen, kChannels});
  const TensorView lse = make(DType::kF32, {kBatch, kSeqLen, kHeads});
  const auto part = [&](const TensorView& view, int64_t index) {
    return TensorView{
        view.as<std::byte>() + index * kChannels * tensor::size_of(t), t, {kBatch, kSeqLen, kChannels}};
  };
  const int threads = cpu_.pool.threads();
  const auto workspace = bytes(std::max(attention_forward_workspace_bytes(t, shape, threads),
                                        attention_backward_workspace_bytes(t, shape, threads)));
  const AttentionArgs args{.shape = shape,
                           .scale = 0.125F,
                           .q = part(qkv, 0),
                           .k = part(qkv, 1),
                           .v = part(qkv, 2),
                           .q_stride = stride,
                           .kv_stride = stride,
                           .position = {},
                           .doc_start = {},
                           .o = o,
                           .lse = lse,
                           .workspace = workspace};
  // Causal: half of T² scores, two products of D each.
  const double flops =
      2.0 * 2.0 * static_cast<double>(kBatch * kSeqLen) * static_cast<double>(kSeqLen * kChannels) / 2;
  run("attention forward", flops, kLayers, 0.50, [&] { attention_forward(cpu_, args); });
  run("attention backward", 2.5 * flops, kLayers, 0.50, [&] {
    attention_backward(cpu_, args, {grad_o, part(grad, 0), part(grad, 1), part(grad, 2)});
  });
  buffers_.clear();
}

void Bench::head() {
  const DType t = dtype_;
  const TensorView x = make(t, {kRows, kChannels}), dx = make(t, {kRows, kChannels});
  const TensorView w = make(DType::kF32, {kVocabulary, kChannels}, 0.03F),
                   labels = make(DType::kI32, {kRows});
  const TensorView dw = make(DType::kF32, {kVocabulary, kChannels});
  for (int32_t r = 0; r < kRows; ++r) labels.as<int32_t>()[r] = r * 37 % static_cast<int32_t>(kVocabulary);
  const auto forward = bytes(packed_weight_bytes(t, WeightUse::kForward, kVocabulary, kChannels));
  const auto backward = bytes(packed_weight_bytes(t, WeightUse::kBackward, kVocabulary, kChannels));
  const auto workspace = bytes(head_workspace_bytes(t, kRows, kChannels, kVocabulary, true));
  run("head pack", 0, 0, 0, [&] { pack_weight(cpu_, {w, t, forward, backward}); });
  const double flops = 3 * 2.0 * static_cast<double>(kRows * kChannels) * static_cast<double>(kVocabulary);
  run("head and cross-entropy", flops, 1, 0.75, [&] {
    head_cross_entropy(cpu_, {.x = x,
                              .part = whole_vocabulary(kVocabulary),
                              .forward = forward,
                              .backward = backward,
                              .labels = labels,
                              .mask = {},
                              .statistics = {},
                              .scale = 1,
                              .dx = dx,
                              .beta = 1,
                              .dw = dw,
                              .workspace = workspace});
  });
  buffers_.clear();
}

void Bench::rows() {
  const DType t = dtype_;
  const TensorView x = make(t, {kRows, kChannels}), delta = make(t, {kRows, kChannels}),
                   y = make(t, {kRows, kChannels});
  const TensorView x_out = make(t, {kRows, kChannels}), dx = make(t, {kRows, kChannels});
  const TensorView w = make(DType::kF32, {kChannels}), b = make(DType::kF32, {kChannels});
  const TensorView dw = make(DType::kF32, {kChannels}), db = make(DType::kF32, {kChannels});
  const auto workspace = bytes(norm_backward_workspace_bytes(kRows, kChannels));
  run("residual + layer norm", 0, 2 * kLayers, 0, [&] {
    norm_forward(cpu_, {NormKind::kLayer, 1e-5F, x, delta, x_out, w, b, y});
  });
  run("layer norm backward", 0, 2 * kLayers, 0, [&] {
    norm_backward(cpu_, {NormKind::kLayer, 1e-5F, x, w, y, delta, dx, 1, dw, db, workspace});
  });
  const TensorView wide = make(t, {kRows, kFeedForward}), out = make(t, {kRows, kFeedForward});
  run("GELU forward", 0, kLayers, 0, [&] { activation_forward(cpu_, Activation::kGeluTanh, wide, out); });
  run("GELU backward", 0, kLayers, 0,
      [&] { activation_backward(cpu_, Activation::kGeluTanh, wide, out, out); });
  const TensorView table = make(DType::kF32, {kVocabulary, kChannels}), ids = make(DType::kI32, {kRows});
  const TensorView dtable = make(DType::kF32, {kVocabulary, kChannels});
  for (int32_t r = 0; r < kRows; ++r) ids.as<int32_t>()[r] = r * 37 % static_cast<int32_t>(kVocabulary);
  run("embedding forward", 0, 1, 0, [&] { embedding_forward(cpu_, {ids, 0, table, x}); });
  run("embedding gradient", 0, 1, 0, [&] { embedding_gradient(cpu_, {ids, 0, dx, 1, dtable}); });
  buffers_.clear();
}

void Bench::updates() {
  constexpr int64_t kParameters = 124439808;
  const TensorView param = make(DType::kF32, {kParameters}), m = make(DType::kF32, {kParameters});
  const TensorView v = make(DType::kF32, {kParameters}), grad = make(DType::kF32, {kParameters});
  const auto workspace = bytes(sum_squares_workspace_bytes(kParameters));
  for (int64_t i = 0; i < kParameters; ++i) v.as<float>()[i] = 1e-4F;
  run("sum of squares, 124 M", 0, 0, 0, [&] { sum_squares(cpu_, grad, workspace); });
  run("AdamW, 124 M", 0, 0, 0,
      [&] { adamw(cpu_, {.param = param, .m = m, .v = v, .grad = grad, .learning_rate = 1e-4F}); });
  buffers_.clear();
}

Result<int> run(BenchReport& report) {
  const auto& words = report.arguments();
  const DType dtype = words.size() == 1 && words[0] == "--f32" ? DType::kF32 : DType::kBF16;
  flush_denormals();
  ThreadPool pool(available_threads(), flush_denormals);
  const Cpu cpu{pool};
  INGOT_TRY(const std::unique_ptr<Ceiling> ceiling, Ceiling::create(cpu, dtype));
  if (dtype == DType::kBF16 && !cpu.native_bf16) report.note("bf16 by f32 arithmetic");
  double best = 0;
  for (const CeilingEntry& entry : ceiling->measure(5)) {
    report.note(fmt::format("  {:<40}{:8.1f} GFLOP/s", entry.name, entry.flops_per_second * 1e-9));
    best = std::max(best, entry.flops_per_second);
  }
  Bench bench(cpu, dtype, *ceiling, report);
  bench.products();
  bench.attention();
  bench.head();
  bench.rows();
  bench.updates();
  // Forward and backward of one token, attention halved for causality (design.md, MFU).
  constexpr double kFlopsPerToken = 798.03e6;
  const double mfu = kFlopsPerToken * static_cast<double>(kRows) / bench.step_s_ / best;
  report.note(fmt::format("forward and backward of {} tokens: {:.2f} s by these sums, mfu_causal {:.3f}",
                          kRows, bench.step_s_, mfu));
  return report.finish();
}

}  // namespace
}  // namespace ingot::backend::cpu

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, ingot::backend::cpu::run); }
