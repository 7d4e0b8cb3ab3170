#pragma once
// Loss of a model on a token stream, over the ranks of a team.

#include <functional>

#include "data/dataset.h"
#include "train/rank_team.h"

namespace ingot::train {

struct Evaluation {
  double loss = 0;  // mean over tokens, natural logarithm
  int64_t tokens = 0;
};

// Bits per byte of text, given the mean loss per token of a stream.
double bits_per_byte(const data::TokenStream& stream, double loss);

struct EvaluationInputs {
  RankTeam* team = nullptr;
  std::function<runtime::Executor&(int index)> executor;  // of an evaluation program, by rank of the team
  graph::Mesh mesh;
  int64_t batch = 1, seq_len = 1;  // of the program; seq_len of whole samples
  bool document_mask = false;
};

// Over samples 0, 1, 2, ... of the stream in its own order, until `max_tokens` (negative: all). Errors: fewer
// tokens than one sample; damage in the data.
Result<Evaluation> evaluate_stream(const EvaluationInputs& inputs, const data::TokenStream& stream,
                                   int64_t max_tokens);

}  // namespace ingot::train
