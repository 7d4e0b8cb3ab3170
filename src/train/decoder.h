#pragma once
// Runs a trained model token by token with a cache of keys and values: generation, and scoring of given text.
// One rank.

#include <memory>
#include <span>

#include "checkpoint/checkpoint.h"
#include "spec/spec.h"
#include "train/rank_team.h"
#include "train/weights.h"

namespace ingot::train {

struct DecoderOptions {
  spec::ModelSpec model;
  graph::Precision precision = graph::Precision::kF32;
  std::string backend = "cpu";
  int threads = 0;    // 0: all that the process has
  int64_t cache = 0;  // tokens that a sequence may have; at most max_positions where these are learned
};

class Decoder {
 public:
  static Result<std::unique_ptr<Decoder>> create(const DecoderOptions& options);
  ~Decoder();
  Weights& weights() { return *weights_; }  // fill before the first feed
  int64_t cache() const { return options_.cache; }
  int64_t position() const { return position_; }
  void restart() { position_ = 0; }  // a new sequence

  // Appends tokens to the sequence; returns the logits [V] after the last one, valid until the next call.
  // Errors: the cache is full; an id outside the vocabulary.
  Result<std::span<const float>> feed(std::span<const int32_t> tokens);

 private:
  Decoder() = default;
  Result<void> run(runtime::Executor& executor, std::span<const int32_t> tokens);
  DecoderOptions options_;
  graph::Program block_program_, single_program_;
  std::unique_ptr<RankTeam> team_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<runtime::Executor> block_, single_;  // kBlock tokens at once, one token
  int64_t position_ = 0;
  std::vector<float> logits_;
};

// Fills a decoder's or a session's parameters from the "model" group of a checkpoint.
Result<void> load_parameters(Weights& weights, const checkpoint::Checkpoint& saved);

}  // namespace ingot::train
