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

// B = micro-batch size, T = seq_len; all row-major.
// A field that the program does not read may be empty, tokens never.
struct BatchView {
  int64_t batch = 0;
  int64_t seq_len = 0;
  std::span<int32_t> tokens;     // [B, T]
  std::span<int32_t> labels;     // [B, T] the next token
  std::span<float> loss_mask;    // [B, T] 1, and 0 in rows beyond the last sample of an evaluation
  std::span<int32_t> position;   // [B, T] index in the sample, 0 .. T-1, never reset at a document
  std::span<int32_t> doc_start;  // [B, T] position at which its document begins; 0 without document_mask
  std::span<int64_t> sample;     // [B] global sample index, running on over epochs
};

// Which global samples a step reads: the consecutive indices [step * global_batch, (step + 1) *
// global_batch), cut into global micro-batches of `micro_batch`; replica r of `replicas` takes the r-th block
// of micro_batches() of them.
struct StepLayout {
  int64_t global_batch = 1;                                                          // samples a step
  int64_t micro_batch = 1;                                                           // B
  int64_t replicas = 1;                                                              // dp
  int64_t micro_batches() const { return global_batch / (micro_batch * replicas); }  // of one replica
  int64_t first_sample(int64_t step, int64_t replica, int64_t micro) const {
    return step * global_batch + (replica * micro_batches() + micro) * micro_batch;
  }
  // A sentence when micro_batch * replicas does not divide global_batch.
  Result<void> validate() const;
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
  // `stream` must outlive it and have at least one sample of seq_len.
  BatchFiller(const TokenStream& stream, Sampler order, int64_t seq_len);
  // Allocates nothing unless it fails or substitutes; substitutions are added to substitutions().
  Result<void> fill(const BatchRequest& request, const BatchView& batch);
  const std::vector<Substitution>& substitutions() const { return substitutions_; }
  void clear_substitutions() { substitutions_.clear(); }
  const Sampler& order() const { return order_; }

 private:
  Result<int64_t> read_sample(int64_t global_sample, OnCorrupt on_corrupt);
  void fill_document_starts(int64_t element, std::span<int32_t> doc_start);

  const TokenStream& stream_;
  Sampler order_;
  int64_t seq_len_;
  std::vector<int32_t> row_;        // [T + 1]
  std::vector<int64_t> starts_;     // [T]
  std::vector<int32_t> positions_;  // [T] the same for every row, as are the masks
  std::vector<float> ones_;         // [T]
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
