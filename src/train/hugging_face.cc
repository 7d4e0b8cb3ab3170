#include "train/hugging_face.h"

#include "model/model.h"
#include "spec/config.h"
#include "spec/hf_config.h"

namespace ingot::train {
namespace {

// Named float32 memory for every parameter of the table.
struct Copies {
  std::vector<std::vector<float>> memory;
  std::vector<checkpoint::NamedTensor> tensors;

  explicit Copies(const std::vector<checkpoint::TensorMapping>& table) {
    memory.reserve(table.size());
    for (const checkpoint::TensorMapping& row : table) {
      std::vector<float>& own = memory.emplace_back(static_cast<size_t>(row.shape.elements()));
      tensors.push_back({row.name, {.data = own.data(), .dtype = tensor::DType::kF32, .shape = row.shape}});
    }
  }
};

}  // namespace

Result<std::vector<checkpoint::TensorMapping>> hugging_face_table(const spec::ModelSpec& model) {
  INGOT_TRY(const graph::Graph graph, model::build_graph(model, {.purpose = graph::Purpose::kEvaluate}));
  std::vector<checkpoint::TensorMapping> table;
  for (const graph::Parameter& parameter : graph.parameters) {
    const graph::HuggingFaceName& name = parameter.hugging_face;
    table.push_back({.name = parameter.name,
                     .shape = parameter.logical,
                     .theirs = name.tensor,
                     .transposed = name.transposed,
                     .row = name.row,
                     .rows = name.rows});
  }
  return table;
}

Result<void> init_from_folder(Weights& weights, const spec::ModelSpec& model, const std::string& folder) {
  INGOT_TRY(const spec::HfModel theirs, spec::read_hf_config(folder));
  std::string differences;
  const auto compare = [&](const char* what, int64_t here, int64_t there) {
    if (here != there)
      differences +=
          fmt::format("{}{} {} there, {} here", differences.empty() ? "" : "; ", what, there, here);
  };
  compare("hidden size", model.hidden_size, theirs.model.hidden_size);
  compare("layers", model.num_layers, theirs.model.num_layers);
  compare("heads", model.num_heads, theirs.model.num_heads);
  compare("vocabulary", model.vocab_size, theirs.model.vocab_size);
  if (!differences.empty())
    return invalid(
        fmt::format("train.init_from = {}   is another model: {}. Set model.from = \"{}\" to take its shape",
                    folder, differences, folder));
  INGOT_TRY(const std::vector<checkpoint::TensorMapping> table, hugging_face_table(model));
  checkpoint::ImportOptions options;
  if (model.tie_word_embeddings)
    options.same_as = {
        {"lm_head.weight", model.family == "gpt2" ? "transformer.wte.weight" : "model.embed_tokens.weight"}};
  // Ranks elsewhere hold what none holds here.
  const auto sink = [&](const checkpoint::TensorMapping& row, int64_t first, std::span<const float> values) {
    const Weights::Tensor* tensor = weights.find(row.name, "param");
    if (tensor != nullptr) weights.scatter(*tensor, first, values);
  };
  INGOT_TRY([[maybe_unused]] const checkpoint::ImportReport report,
            checkpoint::import_hugging_face(folder, table, options, sink));
  weights.touch();
  return {};
}

Result<checkpoint::ExportReport> export_folder(const checkpoint::Checkpoint& saved,
                                               const spec::ModelSpec& model, const HubExport& options) {
  INGOT_TRY(const std::vector<checkpoint::TensorMapping> table, hugging_face_table(model));
  const Copies copies(table);
  INGOT_TRY_VOID(saved.read("model", copies.tensors));
  const std::vector<checkpoint::ExportFile> files = {{"config.json", spec::write_hf_config(model)},
                                                     {"tokenizer.json", options.tokenizer_json}};
  return checkpoint::export_hugging_face(
      options.folder, copies.tensors, table, files,
      {.dtype = options.bf16 ? tensor::DType::kBF16 : tensor::DType::kF32, .replace = options.replace});
}

}  // namespace ingot::train
