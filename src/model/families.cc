#include "model/families/families.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/units.h"
#include "model/model.h"

namespace ingot::model {
namespace {

constexpr std::array<Family, 2> kFamilies = {{
    {"gpt2", "learned positions, layer norm, one GELU (GPT-2, GPT-3, nanoGPT)", build_gpt2},
    {"llama", "rotary positions, RMS norm, grouped queries, SwiGLU (Llama, Mistral, Qwen 2)", build_llama},
}};

Result<void> check_sizes(const spec::ModelSpec& spec, const graph::BuildOptions& options) {
  for (const auto& [name, size] : {std::pair{"vocab_size", spec.vocab_size},
                                   {"hidden_size", spec.hidden_size},
                                   {"num_layers", spec.num_layers},
                                   {"num_heads", spec.num_heads},
                                   {"num_kv_heads", spec.num_kv_heads},
                                   {"head_dim", spec.head_dim},
                                   {"intermediate_size", spec.intermediate_size}}) {
    if (size < 1) return invalid(fmt::format("model.{} is {}; it must be at least 1", name, size));
  }
  if (spec.num_heads % spec.num_kv_heads != 0)
    return invalid(fmt::format("model.num_kv_heads is {}, which does not divide the {} heads",
                               spec.num_kv_heads, spec.num_heads));
  if (spec.family != "gpt2") return {};
  if (spec.num_kv_heads != spec.num_heads)
    return invalid(fmt::format("model.num_kv_heads is {}: gpt2 has as many as heads, {}", spec.num_kv_heads,
                               spec.num_heads));
  const int64_t longest = options.purpose == graph::Purpose::kDecode ? options.cache : options.sequence;
  if (longest > spec.max_positions)
    return invalid(
        fmt::format("a sequence of {} tokens does not fit the {} positions of the model; shorten "
                    "data.seq_len or raise model.max_positions",
                    longest, spec.max_positions));
  return {};
}

}  // namespace

std::span<const Family> all_families() { return kFamilies; }

const Family* find_family(std::string_view name) {
  for (const Family& family : kFamilies)
    if (family.name == name) return &family;
  return nullptr;
}

Result<graph::Graph> build_graph(const spec::ModelSpec& spec, const graph::BuildOptions& options) {
  const Family* family = find_family(spec.family);
  if (family == nullptr) {
    std::vector<std::string> names;
    for (const Family& row : kFamilies) names.emplace_back(row.name);
    const std::string nearest = nearest_name(spec.family, names);
    return invalid(fmt::format("model.family \"{}\" is not known; {}", spec.family,
                               nearest.empty() ? fmt::format("choose from {}", fmt::join(names, ", "))
                                               : fmt::format("did you mean \"{}\"?", nearest)));
  }
  spec::ModelSpec resolved = spec;
  spec::resolve_model(&resolved);
  INGOT_TRY_VOID(check_sizes(resolved, options));
  graph::BuildOptions sized = options;
  sized.layers = static_cast<int>(resolved.num_layers);
  graph::Graph graph;
  graph::Builder builder(graph, sized);
  family->build(builder, resolved);
  return graph;
}

int64_t parameter_count(const graph::Graph& graph) {
  int64_t count = 0;
  for (const graph::Parameter& parameter : graph.parameters) count += parameter.logical.elements();
  return count;
}

}  // namespace ingot::model
