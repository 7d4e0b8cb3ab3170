#include <cmath>
#include <cstring>
#include <limits>

#include "backend/reference/element.h"
#include "backend/reference/reference.h"

namespace ingot::backend::reference {
namespace {

std::span<double> doubles(std::span<std::byte> workspace, int64_t count) {
  INGOT_CHECK(static_cast<int64_t>(workspace.size()) >= count * 8,
              "the kernel needs {} bytes of workspace, the plan gives {}", count * 8, workspace.size());
  return {reinterpret_cast<double*>(workspace.data()), static_cast<size_t>(count)};
}

// One query of one head against `keys` keys, of which visible(k) are seen. Decoding and training share it, so
// that they give the same bits.
struct Query {
  int64_t q_at, head_dim, k_stride, k_at;  // first elements, and from key to key
  int64_t keys;
  double scale;
};

// Writes o[o_at ..]; returns the log of the sum of exponentials. A query that sees nothing gives zero and
// -infinity.
template <class Visible>
double attend(const Query& query, const Elements& q, const Elements& k, const Elements& v, const Elements& o,
              std::span<double> scores, const Visible& visible) {
  double greatest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < query.keys; ++j) {
    if (!visible(j)) continue;
    double dot = 0;
    for (int64_t d = 0; d < query.head_dim; ++d)
      dot += q[query.q_at + d] * k[query.k_at + j * query.k_stride + d];
    scores[static_cast<size_t>(j)] = query.scale * dot;
    greatest = std::max(greatest, scores[static_cast<size_t>(j)]);
  }
  double sum = 0;
  for (int64_t j = 0; j < query.keys; ++j) {
    if (!visible(j)) continue;
    double& score = scores[static_cast<size_t>(j)];
    score = std::exp(score - greatest);
    sum += score;
  }
  for (int64_t d = 0; d < query.head_dim; ++d) {
    double weighted = 0;
    for (int64_t j = 0; j < query.keys; ++j)
      if (visible(j)) weighted += scores[static_cast<size_t>(j)] * v[query.k_at + j * query.k_stride + d];
    o.set(query.q_at + d, sum > 0 || std::isnan(sum) ? weighted / sum : 0);
  }
  return greatest + std::log(sum);
}

struct Sizes {
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  int64_t q_width() const { return heads * head_dim; }
  int64_t k_width() const { return kv_heads * head_dim; }
  // Of query head h: consecutive heads share a key-value head.
  int64_t kv_head(int64_t h) const { return h * kv_heads / heads; }
};

Sizes sizes_of(const TensorView& q, const TensorView& k, const graph::Attributes& attributes) {
  const int64_t d = attributes.head_dim;
  return {q.shape[0], q.shape[1], k.shape[1], q.shape[2] / d, k.shape[2] / d, d};
}

}  // namespace

void attention(const KernelArgs& args, void*) {
  const Sizes n = sizes_of(args.inputs[0], args.inputs[1], *args.attributes);
  const Elements q(args.inputs[0]), k(args.inputs[1]), v(args.inputs[2]), o(args.outputs[0]),
      lse(args.outputs[1]);
  const auto* position_q = args.inputs[3].as<const int32_t>();
  const auto* position_k = args.inputs[4].as<const int32_t>();
  const auto* doc_start = args.inputs[5].as<const int32_t>();
  const std::span<double> scores = doubles(args.workspace, n.keys);
  for (int64_t b = 0; b < n.batch; ++b) {
    for (int64_t t = 0; t < n.queries; ++t) {
      const int64_t row = b * n.queries + t;
      const auto visible = [&](int64_t j) {
        const int32_t at = position_k[b * n.keys + j];
        return doc_start[row] <= at && at <= position_q[row];
      };
      for (int64_t h = 0; h < n.heads; ++h) {
        const Query query{row * n.q_width() + h * n.head_dim,
                          n.head_dim,
                          n.k_width(),
                          b * n.keys * n.k_width() + n.kv_head(h) * n.head_dim,
                          n.keys,
                          args.attributes->scale};
        lse.set(row * n.heads + h, attend(query, q, k, v, o, scores, visible));
      }
    }
  }
}

// With p = exp(s - lse), delta = do . o: dv += p do; ds = p (do . v - delta); dq += scale ds k; dk += scale
// ds q.
void attention_grad(const KernelArgs& args, void*) {
  const Sizes n = sizes_of(args.inputs[0], args.inputs[1], *args.attributes);
  const Elements q(args.inputs[0]), k(args.inputs[1]), v(args.inputs[2]), o(args.inputs[3]),
      lse(args.inputs[4]), dout(args.inputs[5]), dq(args.outputs[0]), dk(args.outputs[1]),
      dv(args.outputs[2]);
  const auto* position_q = args.inputs[6].as<const int32_t>();
  const auto* position_k = args.inputs[7].as<const int32_t>();
  const auto* doc_start = args.inputs[8].as<const int32_t>();
  const int64_t kv_elements = n.keys * n.k_width();
  const std::span<double> work = doubles(args.workspace, 2 * kv_elements + n.head_dim);
  const std::span<double> sum_k = work.subspan(0, static_cast<size_t>(kv_elements));
  const std::span<double> sum_v =
      work.subspan(static_cast<size_t>(kv_elements), static_cast<size_t>(kv_elements));
  const std::span<double> sum_q = work.subspan(static_cast<size_t>(2 * kv_elements));
  const double scale = args.attributes->scale;
  for (int64_t b = 0; b < n.batch; ++b) {
    std::fill(work.begin(), work.end(), 0.0);
    for (int64_t t = 0; t < n.queries; ++t) {
      const int64_t row = b * n.queries + t;
      for (int64_t h = 0; h < n.heads; ++h) {
        const int64_t q_at = row * n.q_width() + h * n.head_dim;
        double delta = 0;
        for (int64_t d = 0; d < n.head_dim; ++d) delta += dout[q_at + d] * o[q_at + d];
        std::fill(sum_q.begin(), sum_q.end(), 0.0);
        for (int64_t j = 0; j < n.keys; ++j) {
          const int32_t at = position_k[b * n.keys + j];
          if (at < doc_start[row] || at > position_q[row]) continue;
          const int64_t in_sample = j * n.k_width() + n.kv_head(h) * n.head_dim,
                        k_at = b * kv_elements + in_sample;
          double score = 0, dp = 0;
          for (int64_t d = 0; d < n.head_dim; ++d) {
            score += q[q_at + d] * k[k_at + d];
            dp += dout[q_at + d] * v[k_at + d];
          }
          const double p = std::exp(scale * score - lse[row * n.heads + h]), ds = scale * p * (dp - delta);
          for (int64_t d = 0; d < n.head_dim; ++d) {
            const auto i = static_cast<size_t>(in_sample + d);
            sum_v[i] += p * dout[q_at + d];
            sum_k[i] += ds * q[q_at + d];
            sum_q[static_cast<size_t>(d)] += ds * k[k_at + d];
          }
        }
        for (int64_t d = 0; d < n.head_dim; ++d) dq.set(q_at + d, sum_q[static_cast<size_t>(d)]);
      }
    }
    for (int64_t i = 0; i < kv_elements; ++i) {
      dk.set(b * kv_elements + i, sum_k[static_cast<size_t>(i)]);
      dv.set(b * kv_elements + i, sum_v[static_cast<size_t>(i)]);
    }
  }
}

// Each set's output weighs as its sum of exponentials: exp(lse - lse of both).
void attention_merge(const KernelArgs& args, void*) {
  const Elements first(args.inputs[0]), first_lse(args.inputs[1]), second(args.inputs[2]),
      second_lse(args.inputs[3]), o(args.outputs[0]), lse(args.outputs[1]);
  const int64_t rows = args.outputs[1].elements(),
                head_dim = args.outputs[0].elements() / std::max<int64_t>(rows, 1);
  for (int64_t row = 0; row < rows; ++row) {
    const double a = first_lse[row], b = second_lse[row], greatest = std::max(a, b);
    const bool sees_nothing = greatest == -std::numeric_limits<double>::infinity();
    const double sum =
        sees_nothing ? greatest : greatest + std::log(std::exp(a - greatest) + std::exp(b - greatest));
    const double first_weight = sees_nothing ? 0 : std::exp(a - sum),
                 second_weight = sees_nothing ? 0 : std::exp(b - sum);
    for (int64_t i = row * head_dim; i < (row + 1) * head_dim; ++i)
      o.set(i, first_weight * first[i] + second_weight * second[i]);
    lse.set(row, sum);
  }
}

void cache_append(const KernelArgs& args, void*) {
  const auto* position = args.inputs[2].as<const int32_t>();
  const int64_t batch = args.inputs[0].shape[0], queries = args.inputs[0].shape[1],
                width = args.inputs[0].shape[2];
  const int64_t cache = args.outputs[0].shape[1];
  for (size_t which = 0; which < 2; ++which) {
    const Elements from(args.inputs[which]), to(args.outputs[which]);
    for (int64_t row = 0; row < batch * queries; ++row) {
      INGOT_CHECK(position[row] >= 0 && position[row] < cache, "position {} lies beyond a cache of {}",
                  position[row], cache);
      const int64_t at = (row / queries * cache + position[row]) * width;
      for (int64_t c = 0; c < width; ++c) to.set(at + c, from[row * width + c]);
    }
  }
}

void attention_cached(const KernelArgs& args, void*) {
  const Sizes n = sizes_of(args.inputs[0], args.inputs[1], *args.attributes);
  const Elements q(args.inputs[0]), k(args.inputs[1]), v(args.inputs[2]), o(args.outputs[0]);
  const auto* position = args.inputs[3].as<const int32_t>();
  const std::span<double> scores = doubles(args.workspace, n.keys);
  for (int64_t row = 0; row < n.batch * n.queries; ++row) {
    const int64_t keys = std::min<int64_t>(position[row] + 1, n.keys);
    for (int64_t h = 0; h < n.heads; ++h) {
      const Query query{row * n.q_width() + h * n.head_dim,
                        n.head_dim,
                        n.k_width(),
                        row / n.queries * n.keys * n.k_width() + n.kv_head(h) * n.head_dim,
                        keys,
                        args.attributes->scale};
      attend(query, q, k, v, o, scores, [](int64_t) { return true; });
    }
  }
}

}  // namespace ingot::backend::reference
