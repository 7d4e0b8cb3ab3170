#pragma once
// A model small enough for tests, the data that it learns and a session over both. Tests only.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/test_folder.h"
#include "train/session.h"

namespace ingot::train {

// Odd on purpose: nothing fills whole vectors or tiles.
inline constexpr int64_t kSmallVocab = 61, kSmallSeqLen = 21;

struct SmallRun {
  std::string family = "llama";
  graph::Precision precision = graph::Precision::kF32;
  std::string backend = "cpu";
  int threads = 1, dp = 1, tp = 1, pp = 1, cp = 1, kv_heads = 2;
  int zero_stage = 0, zero_group = 0;
  int64_t determinism_groups = 0;
  std::vector<int64_t> shares = {};  // micro-batches of each replica, where they differ
  int64_t global_batch = 8, micro_batch = 2, steps = 30, seq_len = kSmallSeqLen;
  double learning_rate = 5e-3;
};

spec::ModelSpec small_model(const std::string& family, int kv_heads = 2);
ResolvedRun resolved(const SmallRun& small);

// Fails the test where there is none.
std::unique_ptr<Session> make_session(const SmallRun& small);

// Calls body(session) on a thread per rank of the layout; each joins the world as a process of its own would.
void on_joined_ranks(const SmallRun& small, const std::function<void(Session& session, int rank)>& body);

// A stream of counted tokens (data/test_folder.h), which a model can learn by heart.
class SmallData {
 public:
  SmallData();
  const data::TokenStream& stream() const { return stream_; }
  const TestFolder& folder() const { return folder_; }

 private:
  TestFolder folder_;
  data::TokenStream stream_;
};

// Steps [first, end) of the data that was started; the second from fresh weights and step 0.
std::vector<StepOutcome> train_steps(Session& session, int64_t first, int64_t end);
std::vector<StepOutcome> train_from_start(Session& session, const SmallData& data, int64_t end);
std::vector<double> losses_of(const std::vector<StepOutcome>& outcomes);

// Every parameter and optimizer tensor, whole, one after the other by name.
std::vector<float> all_weights(Session& session);
double greatest_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace ingot::train
