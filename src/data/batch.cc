#include "data/batch.h"

#include <algorithm>
#include <numeric>

#include "base/units.h"

namespace ingot::data {
namespace {

// Looking further would mean that nearly all of the data is damaged.
constexpr int64_t kMaxSubstitutesTried = int64_t{1} << 20;

// A field that nobody reads may be empty.
template <class T>
bool fits(std::span<T> field, int64_t elements) {
  return field.empty() || field.size() == static_cast<size_t>(elements);
}

void check_shapes(const BatchView& batch, int64_t seq_len) {
  const int64_t tokens = batch.batch * batch.seq_len;
  INGOT_CHECK(batch.seq_len == seq_len, "rows of {} positions from a filler of {}", batch.seq_len, seq_len);
  INGOT_CHECK(fits(batch.tokens, tokens) && fits(batch.labels, tokens) && fits(batch.loss_mask, tokens) &&
                  fits(batch.position, tokens) && fits(batch.doc_start, tokens) &&
                  fits(batch.sample, batch.batch),
              "a field of the batch is not [{}, {}]", batch.batch, batch.seq_len);
}

template <class T>
std::span<T> row_of(std::span<T> field, int64_t row, int64_t seq_len) {
  if (field.empty()) return field;
  return field.subspan(static_cast<size_t>(row * seq_len), static_cast<size_t>(seq_len));
}

}  // namespace

int64_t StepLayout::micro_batches(int64_t replica) const {
  return shares.empty() ? global_batch / (micro_batch * replicas) : shares[static_cast<size_t>(replica)];
}

int64_t StepLayout::first_sample(int64_t step, int64_t replica, int64_t micro) const {
  int64_t before = micro;
  for (int64_t other = 0; other < replica; ++other) before += micro_batches(other);
  return step * global_batch + before * micro_batch;
}

Result<void> StepLayout::validate() const {
  if (global_batch < 1 || micro_batch < 1 || replicas < 1) {
    return invalid(
        fmt::format("train.global_batch_size = {}, train.micro_batch_size = {} and dp = {} must all be at "
                    "least 1",
                    global_batch, micro_batch, replicas));
  }
  if (!shares.empty()) {
    const int64_t sum = std::accumulate(shares.begin(), shares.end(), int64_t{0});
    const bool fits = static_cast<int64_t>(shares.size()) == replicas && sum * micro_batch == global_batch &&
                      *std::ranges::min_element(shares) >= 1;
    if (fits) return {};
    return invalid(fmt::format("{} micro-batches over {} replicas are not the {} samples of a step", sum,
                               shares.size(), global_batch));
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

BatchFiller::BatchFiller(const TokenStream& stream, Sampler order, Slice slice)
    : stream_(stream),
      order_(order),
      slice_(std::move(slice)),
      row_(static_cast<size_t>(slice_.seq_len + 1)),
      starts_(static_cast<size_t>(slice_.seq_len)),
      doc_start_(static_cast<size_t>(slice_.seq_len)) {
  if (slice_.columns.empty()) {
    slice_.columns.resize(static_cast<size_t>(slice_.seq_len));
    std::iota(slice_.columns.begin(), slice_.columns.end(), 0);
  }
  INGOT_CHECK(order.samples() <= stream.samples(slice_.seq_len), "an order of {} samples over a stream of {}",
              order.samples(), stream.samples(slice_.seq_len));
}

// Leaves the sample's tokens in row_ and returns which element of the stream they are.
Result<int64_t> BatchFiller::read_sample(int64_t global_sample, OnCorrupt on_corrupt) {
  const int64_t wanted = order_.at(global_sample).element;
  const int64_t tries = on_corrupt == OnCorrupt::kSkip ? std::min(order_.samples(), kMaxSubstitutesTried) : 1;
  for (int64_t i = 0; i < tries; ++i) {
    const int64_t element = (wanted + i) % order_.samples();
    const Result<void> read = stream_.read(element * slice_.seq_len, row_);
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

// Leaves in doc_start_ where the document of each position of the sample begins.
void BatchFiller::find_document_starts(int64_t element) {
  const int64_t first = element * slice_.seq_len;
  const int64_t count = stream_.document_starts_between(first, first + slice_.seq_len, starts_);
  auto from = doc_start_.begin();
  int32_t begins = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto next = doc_start_.begin() + (starts_[static_cast<size_t>(i)] - first);
    std::fill(from, next, begins);
    from = next;
    begins = static_cast<int32_t>(next - doc_start_.begin());
  }
  std::fill(from, doc_start_.end(), begins);
}

Result<void> BatchFiller::fill(const BatchRequest& request, const BatchView& batch) {
  const int64_t width = slice_.width();
  check_shapes(batch, width);
  const int64_t rows = request.rows < 0 ? batch.batch : request.rows;
  INGOT_CHECK(rows <= batch.batch && request.first_sample >= 0, "{} rows from sample {} into a batch of {}",
              rows, request.first_sample, batch.batch);
  for (int64_t r = 0; r < batch.batch; ++r) {
    const bool real = r < rows;
    const auto position = row_of(batch.position, r, width);
    const auto doc_start = row_of(batch.doc_start, r, width);
    const auto loss_mask = row_of(batch.loss_mask, r, width);
    if (!batch.sample.empty()) batch.sample[static_cast<size_t>(r)] = request.first_sample + r;
    if (!position.empty()) std::copy(slice_.columns.begin(), slice_.columns.end(), position.begin());
    std::fill(loss_mask.begin(), loss_mask.end(), real ? 1.0F : 0.0F);
    const bool documents = real && request.document_mask && !doc_start.empty();
    if (!documents) std::fill(doc_start.begin(), doc_start.end(), 0);
    if (real) {
      INGOT_TRY(const int64_t element, read_sample(request.first_sample + r, request.on_corrupt));
      if (documents) find_document_starts(element);
    } else {
      std::fill(row_.begin(), row_.end(), 0);
    }
    const auto take = [&](std::span<int32_t> out, const std::vector<int32_t>& from, int64_t shift) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = from[static_cast<size_t>(slice_.columns[i] + shift)];
    };
    take(row_of(batch.tokens, r, width), row_, 0);
    take(row_of(batch.labels, r, width), row_, 1);
    if (documents) take(doc_start, doc_start_, 0);
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
