#pragma once
// Model families. A family writes the forward pass of one device through graph::Builder and names the axes of
// its parameters; it never writes a backward, a collective, a memory or FLOP formula, a data type or a mesh.
// To add one: families/<family>.cc and a row in families.cc.

#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/builder.h"
#include "spec/spec.h"

namespace ingot::model {

struct Family {
  std::string_view name;     // "gpt2"
  std::string_view summary;  // one line of help
  void (*build)(graph::Builder& builder, const spec::ModelSpec& spec);
};

std::span<const Family> all_families();
const Family* find_family(std::string_view name);

// The forward graph of a model. Errors: unknown family (nearest named), contradictory sizes.
Result<graph::Graph> build_graph(const spec::ModelSpec& spec, const graph::BuildOptions& options);

// Logical number of parameters, without padding; a tied tensor once.
int64_t parameter_count(const graph::Graph& graph);

// Fills `out` (float32 or float64, logical shape of `parameter`, elements [first, first + count) of it) as
// published, from counter-based random numbers keyed by the parameter's name: the same values on any layout.
void initialise(const graph::Parameter& parameter, uint64_t seed, int64_t first, int64_t count,
                tensor::TensorView out);

}  // namespace ingot::model
