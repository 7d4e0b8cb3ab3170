#include "cli/training_data.h"

#include "base/hash.h"
#include "cli/machine.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::cli {

train::DataFacts TrainingData::facts() const {
  return {prepared.dataset.train().tokens(), prepared.dataset.validation().tokens(),
          prepared.tokenizer->vocab_size()};
}

Result<TrainingData> open_training_data(const spec::RunSpec& spec, const std::string& tokenizer,
                                        const data::BuildProgressCallback& progress) {
  data::PrepareOptions options;
  options.train = spec.data.train;
  if (!spec.data.validation.path.empty()) options.validation = {spec.data.validation.path};
  options.validation_fraction = spec.data.validation.fraction;
  options.tokenizer = !spec.data.tokenizer.empty() ? spec.data.tokenizer
                      : tokenizer.empty()          ? "auto"
                                                   : tokenizer;
  options.cache_folder = cache_folder() + "/data";
  options.text_field = spec.data.text_field;
  options.text_field_option = "--set data.text_field=";
  options.seed = static_cast<uint64_t>(spec.run.seed);
  options.bos = spec.data.bos;
  options.threads = static_cast<int>(spec.run.threads.value_or(0));
  TrainingData data;
  INGOT_TRY(data.prepared, data::prepare_data(options, progress));
  Hasher hasher;
  const data::DatasetManifest& manifest = data.prepared.dataset.manifest();
  for (const auto* split : {&manifest.train, &manifest.validation}) {
    for (const data::ShardRecord& shard : split->shards)
      hasher.update(std::as_bytes(std::span<const uint64_t>(&shard.hash, 1)));
  }
  data.identity = {hash_hex(hasher.digest()), hash_hex(data.prepared.tokenizer->fingerprint())};
  return data;
}

}  // namespace ingot::cli
