#include "spec/names.h"

#include <array>

namespace ingot::spec {

std::span<const Named<Precision>> choices_of(Precision) {
  static constexpr auto kNames = std::to_array<Named<Precision>>({{Precision::kFp32, "fp32"},
                                                                  {Precision::kFp32, "float32"},
                                                                  {Precision::kBf16, "bf16"},
                                                                  {Precision::kBf16, "bfloat16"},
                                                                  {Precision::kFp16, "fp16"},
                                                                  {Precision::kFp16, "float16"},
                                                                  {Precision::kFp8, "fp8"}});
  return kNames;
}

std::span<const Named<DeviceKind>> choices_of(DeviceKind) {
  static constexpr auto kNames = std::to_array<Named<DeviceKind>>({{DeviceKind::kAuto, "auto"},
                                                                   {DeviceKind::kCpu, "cpu"},
                                                                   {DeviceKind::kCuda, "cuda"},
                                                                   {DeviceKind::kReference, "reference"}});
  return kNames;
}

std::span<const Named<Determinism>> choices_of(Determinism) {
  static constexpr auto kNames =
      std::to_array<Named<Determinism>>({{Determinism::kRun, "run"}, {Determinism::kLayout, "layout"}});
  return kNames;
}

std::span<const Named<Activation>> choices_of(Activation) {
  static constexpr auto kNames =
      std::to_array<Named<Activation>>({{Activation::kGeluTanh, "gelu_new"},
                                        {Activation::kGeluTanh, "gelu_pytorch_tanh"},
                                        {Activation::kGeluTanh, "gelu_tanh"},
                                        {Activation::kGeluErf, "gelu"},
                                        {Activation::kGeluErf, "gelu_erf"},
                                        {Activation::kSilu, "silu"},
                                        {Activation::kSilu, "swish"}});
  return kNames;
}

std::span<const Named<OptimizerName>> choices_of(OptimizerName) {
  static constexpr auto kNames = std::to_array<Named<OptimizerName>>(
      {{OptimizerName::kAdamW, "AdamW"}, {OptimizerName::kAdamW, "adam"}});
  return kNames;
}

std::span<const Named<LrSchedule>> choices_of(LrSchedule) {
  static constexpr auto kNames =
      std::to_array<Named<LrSchedule>>({{LrSchedule::kCosine, "cosine"},
                                        {LrSchedule::kWsd, "wsd"},
                                        {LrSchedule::kLinear, "linear"},
                                        {LrSchedule::kConstant, "constant"},
                                        {LrSchedule::kInverseSqrt, "inv_sqrt"},
                                        {LrSchedule::kInverseSqrt, "inverse-square-root"}});
  return kNames;
}

std::span<const Named<DecayStyle>> choices_of(DecayStyle) {
  static constexpr auto kNames =
      std::to_array<Named<DecayStyle>>({{DecayStyle::kLinear, "linear"},
                                        {DecayStyle::kCosine, "cosine"},
                                        {DecayStyle::kSqrt, "sqrt"},
                                        {DecayStyle::kSqrt, "minus_sqrt"},
                                        {DecayStyle::kExponential, "exponential"}});
  return kNames;
}

std::span<const Named<PipelineSchedule>> choices_of(PipelineSchedule) {
  static constexpr auto kNames =
      std::to_array<Named<PipelineSchedule>>({{PipelineSchedule::kOneFOneB, "1f1b"},
                                              {PipelineSchedule::kInterleaved, "interleaved"},
                                              {PipelineSchedule::kInterleaved, "interleaved1f1b"},
                                              {PipelineSchedule::kGpipe, "gpipe"},
                                              {PipelineSchedule::kZeroBubble, "zb"}});
  return kNames;
}

std::span<const Named<ContextMode>> choices_of(ContextMode) {
  static constexpr auto kNames = std::to_array<Named<ContextMode>>({{ContextMode::kRing, "ring"},
                                                                    {ContextMode::kRing, "p2p"},
                                                                    {ContextMode::kUlysses, "ulysses"},
                                                                    {ContextMode::kUlysses, "a2a"},
                                                                    {ContextMode::kAllGather, "all_gather"}});
  return kNames;
}

std::span<const Named<Recompute>> choices_of(Recompute) {
  static constexpr auto kNames = std::to_array<Named<Recompute>>({{Recompute::kNone, "none"},
                                                                  {Recompute::kSelective, "selective"},
                                                                  {Recompute::kFull, "full"},
                                                                  {Recompute::kAuto, "auto"}});
  return kNames;
}

std::span<const Named<Topology>> choices_of(Topology) {
  static constexpr auto kNames = std::to_array<Named<Topology>>(
      {{Topology::kSwitch, "switch"}, {Topology::kFatTree, "fat_tree"}, {Topology::kTorus, "torus"}});
  return kNames;
}

std::span<const Named<OnCorrupt>> choices_of(OnCorrupt) {
  static constexpr auto kNames =
      std::to_array<Named<OnCorrupt>>({{OnCorrupt::kStop, "stop"}, {OnCorrupt::kSkip, "skip"}});
  return kNames;
}

std::span<const std::string_view> known_families() {
  static constexpr auto kNames = std::to_array<std::string_view>({"gpt2", "llama"});
  return kNames;
}

}  // namespace ingot::spec
