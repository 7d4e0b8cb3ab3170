#pragma once
// The fields of one micro-batch, as the step program reads them, filled into memory that the caller owns (the
// planned input space). Nothing here knows a device or a layout beyond which global samples a rank takes.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/sampler.h"

namespace ingot::data {

// B = micro-batch size, T = the positions of a sample that the rank holds; all row-major. A field that the
// program does not read may be empty.
struct BatchView {
  int64_t batch = 0;
  int64_t seq_len = 0;           // T
  std::span<int32_t> tokens;     // [B, T]
  std::span<int32_t> labels;     // [B, T] the next token
  std::span<float> loss_mask;    // [B, T] 1, and 0 in rows beyond the last sample of an evaluation
  std::span<int32_t> position;   // [B, T] index in the sample, never reset at a document
  std::span<int32_t> doc_start;  // [B, T] position at which its document begins; 0 without document_mask
  std::span<int64_t> sample;     // [B] global sample index, running on over epochs
};

// Which global samples a step reads: the consecutive indices [step * global_batch, (step + 1) *
// global_batch), cut into global micro-batches of `micro_batch`; the replicas take blocks of them in turn.
struct StepLayout {
  int64_t global_batch = 1;          // samples a step
  int64_t micro_batch = 1;           // B
  int64_t replicas = 1;              // dp
  std::vector<int64_t> shares = {};  // micro-batches of each replica; empty: the same number for all
  int64_t micro_batches(int64_t replica) const;
  int64_t first_sample(int64_t step, int64_t replica, int64_t micro) const;
  // A sentence when micro_batch * replicas does not divide global_batch, or the shares do not make it up.
  Result<void> validate() const;
};

// What of each sample a rank reads.
struct Slice {
  int64_t seq_len = 0;                // of the sample
  std::vector<int64_t> columns = {};  // positions in it, in order; empty: all
  int64_t width() const { return columns.empty() ? seq_len : static_cast<int64_t>(columns.size()); }
};

// What is done with a sample that lies in a damaged block.
enum class OnCorrupt : uint8_t {
  kFail,
  kSkip,  // the next sound element of the same epoch's stream stands in: the same for every rank, counted,
          // never silent
};

struct Substitution {
  int64_t global_sample = 0;
  int64_t damaged = 0;  // element of the stream
  int64_t substitute = 0;
};

struct BatchRequest {
  int64_t first_sample = 0;  // global
  int64_t rows = -1;         // samples to read, the rest of B masked; -1: all of B
  bool document_mask = false;
  OnCorrupt on_corrupt = OnCorrupt::kFail;
};

// Fills batches from one stream in one order; holds one row of scratch, so one per thread.
class BatchFiller {
 public:
  // `stream` must outlive it and have at least one sample.
  BatchFiller(const TokenStream& stream, Sampler order, Slice slice);
  // Allocates nothing unless it fails or substitutes; substitutions are added to substitutions().
  Result<void> fill(const BatchRequest& request, const BatchView& batch);
  const std::vector<Substitution>& substitutions() const { return substitutions_; }
  void clear_substitutions() { substitutions_.clear(); }
  const Sampler& order() const { return order_; }

 private:
  Result<int64_t> read_sample(int64_t global_sample, OnCorrupt on_corrupt);
  void find_document_starts(int64_t element);

  const TokenStream& stream_;
  Sampler order_;
  Slice slice_;
  std::vector<int32_t> row_;        // [seq_len + 1]
  std::vector<int64_t> starts_;     // [seq_len]
  std::vector<int32_t> doc_start_;  // [seq_len]
  std::vector<Substitution> substitutions_;
};

// Memory for a BatchView, for those who have no planned input space (evaluation, tests).
class BatchMemory {
 public:
  BatchMemory(int64_t batch, int64_t seq_len);
  const BatchView& view() const { return view_; }

 private:
  std::vector<int32_t> integers_;
  std::vector<float> loss_mask_;
  std::vector<int64_t> sample_;
  BatchView view_;
};

}  // namespace ingot::data
