#pragma once
// The words of every enum of spec.h, one table each: the first word of a value is the one that is printed.

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "spec/spec.h"

namespace ingot::spec {

template <class E>
struct Named {
  E value;
  std::string_view name;
};

std::span<const Named<Precision>> choices_of(Precision);
std::span<const Named<DeviceKind>> choices_of(DeviceKind);
std::span<const Named<Determinism>> choices_of(Determinism);
std::span<const Named<Activation>> choices_of(Activation);
std::span<const Named<OptimizerName>> choices_of(OptimizerName);
std::span<const Named<LrSchedule>> choices_of(LrSchedule);
std::span<const Named<DecayStyle>> choices_of(DecayStyle);
std::span<const Named<PipelineSchedule>> choices_of(PipelineSchedule);
std::span<const Named<ContextMode>> choices_of(ContextMode);
std::span<const Named<Recompute>> choices_of(Recompute);
std::span<const Named<Topology>> choices_of(Topology);
std::span<const Named<OnCorrupt>> choices_of(OnCorrupt);

// Families that a configuration can speak of, with the words of their config.json in visit.h.
std::span<const std::string_view> known_families();

template <class E>
requires std::is_enum_v<E> std::string_view name_of(E value) {
  for (const Named<E>& one : choices_of(value)) {
    if (one.value == value) return one.name;
  }
  INGOT_CHECK(false, "no name for value {} of an enum", static_cast<int>(value));
  return {};
}

}  // namespace ingot::spec
