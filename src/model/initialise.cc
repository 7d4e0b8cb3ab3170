#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "model/model.h"

namespace ingot::model {
namespace {

template <class Value>
void store(tensor::TensorView out, int64_t count, const Value& value) {
  if (out.dtype == tensor::DType::kF64) {
    for (int64_t i = 0; i < count; ++i) out.as<double>()[i] = value(i);
    return;
  }
  INGOT_CHECK(out.dtype == tensor::DType::kF32, "parameters are initialised in f32 or f64, not {}",
              tensor::name_of(out.dtype));
  for (int64_t i = 0; i < count; ++i) out.as<float>()[i] = static_cast<float>(value(i));
}

}  // namespace

void initialise(const graph::Parameter& parameter, uint64_t seed, int64_t first, int64_t count,
                tensor::TensorView out) {
  INGOT_CHECK(
      first >= 0 && count >= 0 && first + count <= parameter.logical.elements() && count <= out.elements(),
      "elements [{}, {}) of {} {} into {}", first, first + count, parameter.name,
      parameter.logical.to_string(), out.shape.to_string());
  if (parameter.init.kind == graph::InitKind::kNormal) {
    const PhiloxKey key = random_key(seed, RandomPurpose::kInit, hash64(parameter.name));
    store(out, count, [&](int64_t i) {
      return parameter.init.stddev * random_normal(key, static_cast<uint64_t>(first + i), 0);
    });
    return;
  }
  const double constant = parameter.init.kind == graph::InitKind::kOnes ? 1 : 0;
  store(out, count, [constant](int64_t) { return constant; });
}

}  // namespace ingot::model
