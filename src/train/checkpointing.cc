#include "train/checkpointing.h"

#include <array>

#include "graph/ops.h"
#include "spec/config.h"

namespace ingot::train {
namespace {

using checkpoint::NamedTensor;
using checkpoint::TensorGroup;

// Scalars that a run goes on from; the others are outputs of the last step.
constexpr std::array<std::pair<const char*, graph::ScalarIndex>, 3> kScalars = {{
    {"loss_scale", graph::kLossScale},
    {"adam_step", graph::kAdamStep},
    {"good_steps", graph::kGoodSteps},
}};

std::string file_name(const Weights::Tensor& tensor) {
  return tensor.kind == "param" ? tensor.parameter : tensor.kind + "." + tensor.parameter;
}

int64_t counter(const checkpoint::StateRecord& record, std::string_view name) {
  for (const auto& [key, value] : record.counters) {
    if (key == name) return value;
  }
  return 0;
}

checkpoint::StateRecord record_of(Session& session, const Progress& progress, const DataIdentity& identity) {
  const ResolvedRun& run = session.run();
  checkpoint::StateRecord record;
  record.step = progress.step;
  record.samples = progress.step * run.batch.global_batch;
  record.tokens = progress.step * run.tokens_per_step();
  record.seed = static_cast<uint64_t>(run.spec.run.seed);
  record.data_fingerprint = identity.data;
  record.tokenizer_fingerprint = identity.tokenizer;
  record.model = model_fields(run.spec.model);
  record.versions = {{"ingot", INGOT_VERSION}};
  for (const auto& [name, index] : kScalars) record.scalars.emplace_back(name, session.scalars(0)[index]);
  record.scalars.emplace_back("training_seconds", progress.training_seconds);
  record.counters = {{"skipped_steps", progress.skipped_steps},
                     {"clipped_steps", progress.clipped_steps},
                     {"global_batch_size", run.batch.global_batch},
                     {"seq_len", run.seq_len()}};
  if (progress.best_validation_step > 0) record.best_validation_loss = progress.best_validation_loss;
  record.best_validation_step = progress.best_validation_step;
  return record;
}

Result<void> check_identity(const checkpoint::StateRecord& record, const ResolvedRun& run,
                            const DataIdentity& identity, const std::string& path) {
  const auto differs = [&](const char* what, const std::string& remedy) {
    return invalid(fmt::format("The checkpoint at {} was made with another {}. {}", path, what, remedy));
  };
  const std::string anew = "Use the run's own configuration, or start a new run in another run.dir";
  if (record.tokenizer_fingerprint != identity.tokenizer) return differs("tokenizer", anew);
  if (record.data_fingerprint != identity.data) return differs("data set, or its files have changed", anew);
  if (record.seed != static_cast<uint64_t>(run.spec.run.seed))
    return differs(fmt::format("run.seed: {} there, {} here", record.seed, run.spec.run.seed).c_str(), anew);
  if (counter(record, "seq_len") != run.seq_len())
    return differs(
        fmt::format("data.seq_len: {} there, {} here", counter(record, "seq_len"), run.seq_len()).c_str(),
        anew);
  if (counter(record, "global_batch_size") != run.batch.global_batch)
    return differs(fmt::format("global batch size: {} there, {} here", counter(record, "global_batch_size"),
                               run.batch.global_batch)
                       .c_str(),
                   anew);
  return {};
}

}  // namespace

std::string checkpoint_folder(const std::string& run_dir) { return run_dir + "/checkpoints"; }

checkpoint::Fields model_fields(const spec::ModelSpec& model) {
  return {{"family", model.family},
          {"vocab_size", std::to_string(model.vocab_size)},
          {"max_positions", std::to_string(model.max_positions)},
          {"hidden_size", std::to_string(model.hidden_size)},
          {"num_layers", std::to_string(model.num_layers)},
          {"num_heads", std::to_string(model.num_heads)},
          {"num_kv_heads", std::to_string(model.num_kv_heads)},
          {"head_dim", std::to_string(model.head_dim)},
          {"intermediate_size", std::to_string(model.intermediate_size)},
          {"tie_word_embeddings", model.tie_word_embeddings ? "true" : "false"},
          {"bias", model.bias ? "true" : "false"},
          {"qkv_bias", model.qkv_bias ? "true" : "false"}};
}

std::vector<TensorGroup> tensor_groups(const Weights& weights, int index, bool writes) {
  std::vector<TensorGroup> groups = {{"model", {}}, {"optimizer", {}}};
  for (const Weights::Tensor& tensor : weights.tensors()) {
    const tensor::Shape& whole = tensor.definition->logical;
    std::vector<NamedTensor>& group = groups[tensor.kind == "param" ? 0 : 1].tensors;
    for (const Weights::Block& block : tensor.blocks) {
      if (block.index != index || (writes && !block.writes)) continue;
      NamedTensor& own = group.emplace_back(NamedTensor{file_name(tensor), block.view, {}});
      if (block.view.shape == whole) continue;
      own.part = checkpoint::Part{{}, whole};
      for (int d = 0; d < block.region.rank; ++d)
        own.part->offset.push_back(block.region.first[static_cast<size_t>(d)]);
    }
  }
  return groups;
}

Result<checkpoint::SaveReport> save_session(Session& session, const std::string& folder,
                                            const Progress& progress, const DataIdentity& identity) {
  checkpoint::StateRecord record = record_of(session, progress, identity);
  record.configuration = spec::dump_spec(session.run().spec);
  const checkpoint::SaveOptions options{
      .keep_last = static_cast<int>(session.run().spec.checkpoint.keep_last),
      .keep_steps = {progress.best_validation_step}};
  checkpoint::SaveReport report;
  INGOT_TRY_VOID(session.team().each([&](Rank& rank) -> Result<void> {
    const std::vector<TensorGroup> groups = tensor_groups(session.weights(), rank.index, true);
    INGOT_TRY(checkpoint::SaveReport own, checkpoint::save(*rank.control, folder, groups, record, options));
    if (rank.index == 0) report = std::move(own);
    return {};
  }));
  return report;
}

Result<Progress> load_session(Session& session, const checkpoint::Checkpoint& saved,
                              const DataIdentity& identity) {
  const checkpoint::StateRecord& record = saved.state();
  INGOT_TRY_VOID(
      saved.require_model(model_fields(session.run().spec.model),
                          "Resume with its own configuration, or start a new run in another run.dir"));
  INGOT_TRY_VOID(check_identity(record, session.run(), identity, saved.path()));
  INGOT_TRY_VOID(session.team().each([&](Rank& rank) -> Result<void> {
    for (const TensorGroup& group : tensor_groups(session.weights(), rank.index, false))
      INGOT_TRY_VOID(saved.read_some(group.name, group.tensors));
    return {};
  }));
  session.weights().touch();
  Progress progress;
  progress.step = record.step;
  progress.skipped_steps = counter(record, "skipped_steps");
  progress.clipped_steps = counter(record, "clipped_steps");
  progress.best_validation_loss = record.best_validation_loss.value_or(0);
  progress.best_validation_step = record.best_validation_step;
  for (int r = 0; r < session.team().size(); ++r) {
    for (const auto& [name, value] : record.scalars) {
      for (const auto& [own, index] : kScalars) {
        if (name == own) session.scalars(r)[index] = value;
      }
      if (name == "training_seconds") progress.training_seconds = value;
    }
  }
  return progress;
}

}  // namespace ingot::train
