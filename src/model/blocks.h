#pragma once
// What families share: a projection and a norm with their parameters, named and placed. Internal to model.

#include <string>

#include "graph/builder.h"
#include "spec/spec.h"

namespace ingot::model {

using graph::AxisName;
using graph::Builder;
using graph::HuggingFaceName;
using graph::ValueId;

struct Projection {
  std::string name;              // "h.0.attn.q": parameters are name.weight, name.bias
  HuggingFaceName weight, bias;  // where they lie in a Hugging Face checkpoint
  int64_t out = 0, in = 0;
  AxisName out_axis = AxisName::kNone, in_axis = AxisName::kNone;
  double stddev = 0.02;
  bool has_bias = false;
};

// x [.., in] -> [.., out]. Weights are normal and decay, biases are zero and do not.
ValueId project(Builder& builder, ValueId x, const Projection& projection);

// A table [rows, hidden] for embedding or the head; decays.
ValueId table(Builder& builder, const std::string& name, const std::string& hugging_face, int64_t rows,
              int64_t hidden, AxisName rows_axis, double stddev);

struct Norm {
  std::string name, hugging_face;  // without ".weight"
  int64_t hidden = 0;
  double epsilon = 1e-5;
  bool rms = false, has_bias = false;
};
ValueId normalise(Builder& builder, ValueId x, const Norm& norm);

// The end of a model: the norm, then the head, which reads `tokens` where the model ties them.
void finish(Builder& builder, ValueId x, const Norm& norm, ValueId tokens, const spec::ModelSpec& spec);

graph::RotaryOptions rotary_options(const spec::ModelSpec& spec);

}  // namespace ingot::model
