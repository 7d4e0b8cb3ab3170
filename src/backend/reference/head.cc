#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/element.h"
#include "backend/reference/reference.h"

namespace ingot::backend::reference {
namespace {

// The rows of w that this rank holds and that are no padding: columns [first, first + held) of the logits.
struct Vocabulary {
  int64_t first, held;
};
Vocabulary vocabulary_of(const KernelArgs& args) {
  const int64_t stored = args.inputs[1].shape[0], first = args.group_index * stored;
  const int64_t all = args.attributes->vocabulary > 0 ? args.attributes->vocabulary : stored;
  return {first, std::clamp<int64_t>(all - first, 0, stored)};
}

double logit(const Elements& x, const Elements& w, int64_t row, int64_t column, int64_t channels) {
  double sum = 0;
  for (int64_t c = 0; c < channels; ++c) sum += x[row * channels + c] * w[column * channels + c];
  return sum;
}

struct RowStatistics {
  double greatest = -std::numeric_limits<double>::infinity();
  double sum = 0;     // of exp(logit - greatest)
  double target = 0;  // logit of the label
};

template <class Logit>
RowStatistics statistics(const Logit& value, const Vocabulary& vocabulary, int64_t label) {
  RowStatistics result;
  for (int64_t j = 0; j < vocabulary.held; ++j) result.greatest = std::max(result.greatest, value(j));
  for (int64_t j = 0; j < vocabulary.held; ++j) {
    const double at = value(j);
    // Compared in this order a NaN reaches the sum.
    if (std::isnan(at)) result.greatest = at;
    result.sum += std::exp(at - result.greatest);
    if (j + vocabulary.first == label) result.target = at;
  }
  return result;
}

// Of the whole row, from what each rank of the group found in its part.
RowStatistics joined(const Elements& stats, int64_t row, int64_t parts) {
  RowStatistics result;
  for (int64_t p = 0; p < parts; ++p)
    result.greatest = std::max(result.greatest, stats[(row * parts + p) * 3]);
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t at = (row * parts + p) * 3;
    result.sum += stats[at + 1] * std::exp(stats[at] - result.greatest);
    result.target += stats[at + 2];
  }
  return result;
}

}  // namespace

void head_stats(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), w(args.inputs[1]), stats(args.outputs[0]);
  const auto* labels = args.inputs[2].as<const int32_t>();
  const int64_t rows = args.inputs[0].shape.rows(), channels = args.inputs[0].shape.last();
  const Vocabulary vocabulary = vocabulary_of(args);
  for (int64_t r = 0; r < rows; ++r) {
    const auto value = [&](int64_t j) { return logit(x, w, r, j, channels); };
    const RowStatistics s = statistics(value, vocabulary, labels[r]);
    // A part of nothing but padding must not spoil the maximum: exp(lowest - greatest) is zero.
    stats.set(r * 3, vocabulary.held > 0 ? s.greatest : -std::numeric_limits<float>::max());
    stats.set(r * 3 + 1, s.sum);
    stats.set(r * 3 + 2, s.target);
  }
}

namespace {

struct Head {
  const KernelArgs& args;
  Elements x, w;
  int64_t channels;
  Vocabulary vocabulary;
  std::span<double> logits;  // [rows of a chunk, held]; becomes the gradient of the logits
  double seed;
};

// A label outside the vocabulary counts as mask 0.
double mask_of(const Head& head, int64_t row) {
  const int32_t label = head.args.inputs[2].as<const int32_t>()[row];
  const int64_t all = head.args.attributes->vocabulary;
  if (label < 0 || (all > 0 && label >= all)) return 0;
  return Elements(head.args.inputs[3])[row];
}

// Loss of rows [first, first + count), and their logits' gradient in `logits`.
double chunk_loss(const Head& head, int64_t first, int64_t count) {
  const auto* labels = head.args.inputs[2].as<const int32_t>();
  const bool given = head.args.inputs.size() > 5;
  double loss = 0;
  for (int64_t r = 0; r < count; ++r) {
    double* row = head.logits.data() + r * head.vocabulary.held;
    for (int64_t j = 0; j < head.vocabulary.held; ++j)
      row[j] = logit(head.x, head.w, first + r, j, head.channels);
    const int64_t parts = given ? head.args.inputs[5].shape.last() / 3 : 1;
    const RowStatistics s =
        given ? joined(Elements(head.args.inputs[5]), first + r, parts)
              : statistics([&](int64_t j) { return row[j]; }, head.vocabulary, labels[first + r]);
    const double mask = mask_of(head, first + r), lse = s.greatest + std::log(s.sum);
    if (mask != 0) loss += mask * (lse - s.target);
    for (int64_t j = 0; j < head.vocabulary.held; ++j) {
      const double hit = j + head.vocabulary.first == labels[first + r] ? 1 : 0;
      row[j] = mask == 0 ? 0 : head.seed * mask * (std::exp(row[j] - lse) - hit);
    }
  }
  return loss;
}

// dx = dlogits w; dw += dlogits^T x
void chunk_gradients(const Head& head, int64_t first, int64_t count, bool overwrite) {
  const Elements dx(head.args.outputs[1]), dw(head.args.outputs[2]);
  const int64_t held = head.vocabulary.held, channels = head.channels;
  const double* dlogits = head.logits.data();
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < held; ++j) sum += dlogits[r * held + j] * head.w[j * channels + c];
      dx.set((first + r) * channels + c, sum);
    }
  }
  for (int64_t j = 0; j < held; ++j) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < count; ++r) sum += dlogits[r * held + j] * head.x[(first + r) * channels + c];
      dw.put(j * channels + c, sum, overwrite);
    }
  }
  if (!overwrite) return;
  for (int64_t i = held * channels; i < head.args.outputs[2].elements(); ++i) dw.set(i, 0);
}

}  // namespace

void head_loss(const KernelArgs& args, void*) {
  const Vocabulary vocabulary = vocabulary_of(args);
  const int64_t rows = args.inputs[0].shape.rows();
  const auto room = static_cast<int64_t>(args.workspace.size()) / 8;
  const int64_t chunk = std::min(rows, room / std::max<int64_t>(vocabulary.held, 1));
  INGOT_CHECK(chunk > 0 || rows == 0, "the head needs {} bytes of workspace, the plan gives {}",
              vocabulary.held * 8, args.workspace.size());
  const std::span<double> logits(reinterpret_cast<double*>(args.workspace.data()), static_cast<size_t>(room));
  const Head head{args,
                  Elements(args.inputs[0]),
                  Elements(args.inputs[1]),
                  args.inputs[0].shape.last(),
                  vocabulary,
                  logits,
                  graph::gradient_scale(args.inputs[4].as<const double>(), *args.attributes)};
  double loss = 0, tokens = 0;
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    loss += chunk_loss(head, first, count);
    if (args.attributes->with_gradient) chunk_gradients(head, first, count, args.overwrite && first == 0);
    for (int64_t r = first; r < first + count; ++r) tokens += mask_of(head, r);
  }
  auto* sums = args.outputs[0].as<double>();
  sums[graph::kLossSum] += args.attributes->weight * loss;
  sums[graph::kTokenCount] += args.attributes->weight * tokens;
}

}  // namespace ingot::backend::reference
