#pragma once
// A model for evaluation alone: parameters and one forward program, nothing that training needs.

#include <memory>

#include "train/decoder.h"
#include "train/evaluation.h"

namespace ingot::train {

struct EvaluatorOptions {
  spec::ModelSpec model;
  graph::Precision precision = graph::Precision::kF32;
  std::string backend = "cpu";
  int threads = 0;  // 0: all that the process has
  int64_t batch = 1, seq_len = 1;
  bool document_mask = false;
};

class Evaluator {
 public:
  static Result<std::unique_ptr<Evaluator>> create(const EvaluatorOptions& options);
  ~Evaluator();
  Weights& weights() { return *weights_; }  // fill before evaluate
  Result<Evaluation> evaluate(const data::TokenStream& stream, int64_t max_tokens);

 private:
  Evaluator() = default;
  EvaluatorOptions options_;
  graph::Program program_;
  std::unique_ptr<RankTeam> team_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<runtime::Executor> executor_;
};

}  // namespace ingot::train
