#pragma once
// Forward graphs for the tests of graph: the two families in short. What ships is model/families.

#include "graph/builder.h"

namespace ingot::graph {

struct TestModel {
  int64_t vocabulary = 11, channels = 8, heads = 2, kv_heads = 2, layers = 2, ffn = 32, context = 4;
  int64_t batch = 2, sequence = 4;
  bool llama = false;  // RMS norm, rotary, SwiGLU, no biases; else GPT-2
  bool tied = true;
  double dropout = 0;
};

Graph build_test_model(const TestModel& model, Purpose purpose = Purpose::kTrain);

}  // namespace ingot::graph
