#include "data/batch.h"

#include <algorithm>
#include <numeric>

#include "base/units.h"

namespace ingot::data {
namespace {

// Looking further would mean that nearly all of the data is damaged.
constexpr int64_t kMaxSubstitutesTried = int64_t{1} << 20;

// A field that nobody reads may be empty; tokens never.
template <class T>
bool fits(std::span<T> field, int64_t elements) {
  return field.empty() || field.size() == static_cast<size_t>(elements);
}

void check_shapes(const BatchView& batch, int64_t seq_len) {
  const int64_t tokens = batch.batch * batch.seq_len;
  INGOT_CHECK(batch.seq_len == seq_len, "a batch of seq_len {} from a filler of {}", batch.seq_len, seq_len);
  INGOT_CHECK(!batch.tokens.empty() && fits(batch.tokens, tokens) && fits(batch.labels, tokens) &&
                  fits(batch.loss_mask, tokens) && fits(batch.position, tokens) &&
                  fits(batch.doc_start, tokens) && fits(batch.sample, batch.batch),
              "a field of the batch is not [{}, {}]", batch.batch, batch.seq_len);
}

template <class T>
std::span<T> row_of(std::span<T> field, int64_t row, int64_t seq_len) {
  if (field.empty()) return field;
  return field.subspan(static_cast<size_t>(row * seq_len), static_cast<size_t>(seq_len));
}

}  // namespace

Result<void> StepLayout::validate() const {
  if (global_batch < 1 || micro_batch < 1 || replicas < 1) {
    return invalid(
        fmt::format("train.global_batch_size = {}, train.micro_batch_size = {} and dp = {} must all be at "
                    "least 1",
                    global_batch, micro_batch, replicas));
  }
  const bool divides = micro_batch <= global_batch && replicas <= global_batch / micro_batch &&
                       global_batch % (micro_batch * replicas) == 0;
  if (!divides) {
    return invalid(fmt::format(
        "train.global_batch_size = {} is not a multiple of train.micro_batch_size = {} times dp = "
        "{}",
        global_batch, micro_batch, replicas));
  }
  return {};
}

BatchFiller::BatchFiller(const TokenStream& stream, Sampler order, int64_t seq_len)
    : stream_(stream),
      order_(order),
      seq_len_(seq_len),
      row_(static_cast<size_t>(seq_len + 1)),
      starts_(static_cast<size_t>(seq_len)),
      positions_(static_cast<size_t>(seq_len)),
      ones_(static_cast<size_t>(seq_len), 1.0f) {
  std::iota(positions_.begin(), positions_.end(), 0);
  INGOT_CHECK(order.samples() <= stream.samples(seq_len), "an order of {} samples over a stream of {}",
              order.samples(), stream.samples(seq_len));
}

// Leaves the sample's tokens in row_ and returns which element of the stream they are.
Result<int64_t> BatchFiller::read_sample(int64_t global_sample, OnCorrupt on_corrupt) {
  const int64_t wanted = order_.at(global_sample).element;
  const int64_t tries = on_corrupt == OnCorrupt::kSkip ? std::min(order_.samples(), kMaxSubstitutesTried) : 1;
  for (int64_t i = 0; i < tries; ++i) {
    const int64_t element = (wanted + i) % order_.samples();
    const Result<void> read = stream_.read(element * seq_len_, row_);
    if (read) {
      if (i > 0) substitutions_.push_back({global_sample, wanted, element});
      return element;
    }
    if (read.error().code != ErrorCode::kCorrupt || on_corrupt == OnCorrupt::kFail) return read.error();
  }
  return corrupt(
      fmt::format("None of the {} samples from sample {} on is sound. Build the data again with ingot data "
                  "build",
                  format_integer(tries), format_integer(wanted)));
}

void BatchFiller::fill_document_starts(int64_t element, std::span<int32_t> doc_start) {
  const int64_t first = element * seq_len_;
  const int64_t count = stream_.document_starts_between(first, first + seq_len_, starts_);
  size_t from = 0;
  int32_t begins = 0;
  for (int64_t i = 0; i < count; ++i) {
    const size_t next = static_cast<size_t>(starts_[static_cast<size_t>(i)] - first);
    std::fill(doc_start.begin() + static_cast<ptrdiff_t>(from),
              doc_start.begin() + static_cast<ptrdiff_t>(next), begins);
    from = next;
    begins = static_cast<int32_t>(next);
  }
  std::fill(doc_start.begin() + static_cast<ptrdiff_t>(from), doc_start.end(), begins);
}

Result<void> BatchFiller::fill(const BatchRequest& request, const BatchView& batch) {
  check_shapes(batch, seq_len_);
  const int64_t rows = request.rows < 0 ? batch.batch : request.rows;
  INGOT_CHECK(rows <= batch.batch && request.first_sample >= 0, "{} rows from sample {} into a batch of {}",
              rows, request.first_sample, batch.batch);
  const auto seq_len = static_cast<ptrdiff_t>(seq_len_);
  for (int64_t r = 0; r < batch.batch; ++r) {
    const bool real = r < rows;
    const auto tokens = row_of(batch.tokens, r, seq_len_);
    const auto labels = row_of(batch.labels, r, seq_len_);
    const auto position = row_of(batch.position, r, seq_len_);
    const auto doc_start = row_of(batch.doc_start, r, seq_len_);
    const auto loss_mask = row_of(batch.loss_mask, r, seq_len_);
    if (!batch.sample.empty()) batch.sample[static_cast<size_t>(r)] = request.first_sample + r;
    std::copy(positions_.begin(), positions_.end(), position.begin());
    std::fill(doc_start.begin(), doc_start.end(), 0);
    if (!real) {
      std::fill(loss_mask.begin(), loss_mask.end(), 0.0f);
      std::fill(tokens.begin(), tokens.end(), 0);
      std::fill(labels.begin(), labels.end(), 0);
      continue;
    }
    INGOT_TRY(const int64_t element, read_sample(request.first_sample + r, request.on_corrupt));
    std::copy(ones_.begin(), ones_.end(), loss_mask.begin());
    std::copy(row_.begin(), row_.begin() + seq_len, tokens.begin());
    if (!labels.empty()) std::copy(row_.begin() + 1, row_.end(), labels.begin());
    if (request.document_mask && !doc_start.empty()) fill_document_starts(element, doc_start);
  }
  return {};
}

BatchMemory::BatchMemory(int64_t batch, int64_t seq_len)
    : integers_(static_cast<size_t>(4 * batch * seq_len)),
      loss_mask_(static_cast<size_t>(batch * seq_len)),
      sample_(static_cast<size_t>(batch)) {
  const size_t field = static_cast<size_t>(batch * seq_len);
  const std::span<int32_t> integers(integers_);
  view_ = {.batch = batch,
           .seq_len = seq_len,
           .tokens = integers.subspan(0, field),
           .labels = integers.subspan(field, field),
           .loss_mask = loss_mask_,
           .position = integers.subspan(2 * field, field),
           .doc_start = integers.subspan(3 * field, field),
           .sample = sample_};
}

}  // namespace ingot::data
