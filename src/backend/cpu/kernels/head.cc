#include "backend/cpu/kernels/head.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/bf16.h"
#include "backend/cpu/kernels/product_plan.h"
#include "backend/cpu/kernels/products.h"
#include "backend/cpu/kernels/softmax.h"
#include "base/check.h"

namespace ingot::backend::cpu {
namespace {

using tensor::DType;

constexpr int64_t kSoftmaxRows = 4;  // of one task
constexpr int64_t kPackRows = 32;

// The workspace of one chunk.
struct HeadLayout {
  int64_t rows = 0;          // of a chunk
  int64_t logit_stride = 0;  // elements: whole cache lines, and no multiple of a page
  int64_t k_stride = 0;
  int64_t logits_bytes = 0, pack8_bytes = 0, pack48_bytes = 0, row_bytes = 0;
  int64_t total() const { return logits_bytes + pack8_bytes + pack48_bytes + 3 * row_bytes; }
};

HeadLayout lay_out(DType dtype, int64_t rows, int64_t channels, int64_t stored, bool training) {
  constexpr int64_t kPage = 4096, kLine = 64;
  const int64_t element = tensor::size_of(dtype);
  HeadLayout l;
  l.rows = std::min(rows, kHeadRows);
  int64_t row_bytes = tensor::align_up(stored * element, kLine);
  if (row_bytes % kPage == 0) row_bytes += kLine;
  l.logit_stride = row_bytes / element;
  l.logits_bytes = l.rows * row_bytes;
  l.row_bytes = tensor::align_up(l.rows * 4);
  if (!training) return l;
  const GradientPlan plan = plan_gradient(dtype, l.rows, stored, channels);
  l.k_stride = plan.k_stride;
  l.pack8_bytes = plan.pack8_bytes;
  l.pack48_bytes = plan.pack48_bytes;
  return l;
}

// One chunk's pointers and what its rows have: log Σ exp, the logit of the label, mask.
struct Chunk {
  const HeadArgs& args;
  HeadLayout layout;
  DType dtype;
  int64_t begin, rows, channels;
  std::byte *logits, *pack8, *pack48;
  float *lse, *label_logit, *mask;

  int64_t element() const { return tensor::size_of(dtype); }
  std::byte* row_of_logits(int64_t row) const { return logits + row * layout.logit_stride * element(); }
  const std::byte* x() const { return args.x.as<const std::byte>() + begin * channels * element(); }
  int64_t label(int64_t row) const { return args.labels.as<const int32_t>()[begin + row]; }
  // Where the label's logit lies among this part's, if it does.
  int64_t own_label(int64_t row) const {
    const int64_t own = label(row) - args.part.first;
    return own >= 0 && own < args.part.held() ? own : -1;
  }
  float mask_of(int64_t row) const {
    if (label(row) < 0 || label(row) >= args.part.vocabulary) return 0;
    if (args.mask.data == nullptr) return 1;
    return args.mask.dtype == DType::kU8 ? static_cast<float>(args.mask.as<const uint8_t>()[begin + row])
                                         : args.mask.as<const float>()[begin + row];
  }
};

Chunk chunk_at(const HeadArgs& args, const HeadLayout& l, int64_t begin) {
  std::byte* logits = args.workspace.data();
  std::byte* pack8 = logits + l.logits_bytes;
  std::byte* pack48 = pack8 + l.pack8_bytes;
  std::byte* rows = pack48 + l.pack48_bytes;
  return {.args = args,
          .layout = l,
          .dtype = args.x.dtype,
          .begin = begin,
          .rows = std::min(kHeadRows, args.x.shape.rows() - begin),
          .channels = args.x.shape.last(),
          .logits = logits,
          .pack8 = pack8,
          .pack48 = pack48,
          .lse = reinterpret_cast<float*>(rows),
          .label_logit = reinterpret_cast<float*>(rows + l.row_bytes),
          .mask = reinterpret_cast<float*>(rows + 2 * l.row_bytes)};
}

template <class Body>
void for_rows(const Cpu& cpu, const Chunk& c, const Body& body) {
  cpu.pool.parallel_for((c.rows + kSoftmaxRows - 1) / kSoftmaxRows, [&](int64_t tile, int) {
    for (int64_t row = tile * kSoftmaxRows; row < std::min(c.rows, (tile + 1) * kSoftmaxRows); ++row)
      body(row);
  });
}

// Padding's too: their weights are zeros.
void make_logits(const Cpu& cpu, const Chunk& c) {
  run_product(cpu, c.dtype,
              {.a = c.x(),
               .a_stride = c.channels,
               .reduction = c.channels,
               .packed = c.args.forward.data(),
               .y = c.logits,
               .y_stride = c.layout.logit_stride,
               .y_is_f32 = c.dtype == DType::kF32,
               .streaming = streams(c.logits, c.rows, c.layout.logit_stride, c.element()),
               .rows = c.rows,
               .columns = c.args.part.stored});
}

struct RowStatistics {
  SoftmaxStatistics softmax;
  float label_logit = 0;
};

RowStatistics own_statistics(const Chunk& c, int64_t row) {
  const std::byte* logits = c.row_of_logits(row);
  RowStatistics result{softmax_statistics(c.dtype, logits, c.args.part.held()), 0};
  if (const int64_t label = c.own_label(row); label >= 0)
    result.label_logit = c.dtype == DType::kBF16 ? to_f32(reinterpret_cast<const Bf16*>(logits)[label])
                                                 : reinterpret_cast<const float*>(logits)[label];
  return result;
}

// Of the whole row, from those of all parts.
RowStatistics joined_statistics(const Chunk& c, int64_t row) {
  const int64_t parts = c.args.statistics.shape.last() / 3;
  const float* given = c.args.statistics.as<const float>() + (c.begin + row) * parts * 3;
  RowStatistics result{{given[0], 0}, 0};
  for (int64_t p = 1; p < parts; ++p) result.softmax.highest = std::max(result.softmax.highest, given[3 * p]);
  for (int64_t p = 0; p < parts; ++p) {
    result.softmax.sum += given[3 * p + 1] * std::exp(given[3 * p] - result.softmax.highest);
    result.label_logit += given[3 * p + 2];
  }
  return result;
}

void make_statistics(const Cpu& cpu, const Chunk& c) {
  for_rows(cpu, c, [&](int64_t row) {
    const RowStatistics s =
        c.args.statistics.data == nullptr ? own_statistics(c, row) : joined_statistics(c, row);
    c.mask[row] = c.mask_of(row);
    c.lse[row] = s.softmax.highest + std::log(s.softmax.sum);
    c.label_logit[row] = s.label_logit;
  });
}

void make_logit_gradient(const Cpu& cpu, const Chunk& c) {
  const int64_t stored = c.args.part.stored, held = c.args.part.held();
  for_rows(cpu, c, [&](int64_t row) {
    const float factor = c.args.scale * c.mask[row];
    std::byte* logits = c.row_of_logits(row);
    const int64_t kept = factor == 0 ? 0 : held;
    if (kept > 0) cross_entropy_gradient(c.dtype, logits, held, c.lse[row], factor, c.own_label(row));
    std::memset(logits + kept * c.element(), 0, static_cast<size_t>((stored - kept) * c.element()));
  });
}

void make_input_gradient(const Cpu& cpu, const Chunk& c) {
  run_product(cpu, c.dtype,
              {.a = c.logits,
               .a_stride = c.layout.logit_stride,
               .reduction = c.args.part.stored,
               .packed = c.args.backward.data(),
               .y = c.args.dx.as<std::byte>() + c.begin * c.channels * c.element(),
               .y_stride = c.channels,
               .y_is_f32 = c.dtype == DType::kF32,
               .rows = c.rows,
               .columns = c.channels});
}

void make_weight_gradient(const Cpu& cpu, const Chunk& c) {
  const ProductKernels& kernels = product_kernels(cpu, c.dtype);
  const int64_t v = c.args.part.stored, k_stride = (c.rows + 3) / 4 * 4;
  const int64_t blocks = (c.rows + kPackRows - 1) / kPackRows;
  const bool streaming = streams(c.pack8, c.rows, v, 64);
  cpu.pool.parallel_for(2 * blocks, [&](int64_t tile, int) {
    const int64_t begin = tile / 2 * kPackRows, end = std::min(c.rows, begin + kPackRows);
    if (tile % 2 == 0) {
      kernels.pack8({c.logits, c.layout.logit_stride, v, c.rows, c.pack8, k_stride, nullptr, streaming},
                    begin, end);
    } else {
      kernels.pack48({c.x(), c.channels, c.channels, c.rows, c.pack48, k_stride, nullptr, false}, begin, end);
    }
  });
  run_gradient(cpu, c.dtype,
               {.a = c.pack8,
                .b = c.pack48,
                .reduction = k_stride,
                .k_stride = k_stride,
                .c = c.args.dw.as<float>(),
                .c_stride = c.channels,
                .add = c.args.beta != 0 || c.begin > 0,
                .rows = v,
                .columns = c.channels});
}

void check_args(const HeadArgs& args, int64_t needed) {
  const int64_t rows = args.x.shape.rows(), channels = args.x.shape.last();
  INGOT_CHECK(args.x.dtype == DType::kF32 || args.x.dtype == DType::kBF16, "{} is neither f32 nor bf16",
              tensor::name_of(args.x.dtype));
  INGOT_CHECK(static_cast<int64_t>(args.workspace.size()) >= needed, "workspace of {} bytes, {} needed",
              args.workspace.size(), needed);
  INGOT_CHECK(args.labels.elements() == rows, "{} labels for {} rows", args.labels.elements(), rows);
  INGOT_CHECK(args.mask.data == nullptr || args.mask.elements() == rows, "mask {} for {} rows",
              args.mask.shape.to_string(), rows);
  INGOT_CHECK(args.statistics.data != nullptr || args.part.held() == args.part.vocabulary,
              "{} of {} rows of the table, and no statistics of the others", args.part.held(),
              args.part.vocabulary);
  INGOT_CHECK(static_cast<int64_t>(args.forward.size()) >=
                  packed_weight_bytes(args.x.dtype, WeightUse::kForward, args.part.stored, channels),
              "{} packed bytes for [{}, {}]", args.forward.size(), args.part.stored, channels);
  INGOT_CHECK(args.dx.data == nullptr ||
                  static_cast<int64_t>(args.backward.size()) >=
                      packed_weight_bytes(args.x.dtype, WeightUse::kBackward, args.part.stored, channels),
              "{} packed bytes for [{}, {}]", args.backward.size(), args.part.stored, channels);
}

}  // namespace

int64_t head_workspace_bytes(DType dtype, int64_t rows, int64_t channels, int64_t stored, bool training) {
  return lay_out(dtype, rows, channels, stored, training).total();
}

HeadResult head_cross_entropy(const Cpu& cpu, const HeadArgs& args) {
  const int64_t rows = args.x.shape.rows();
  const bool training = args.dx.data != nullptr || args.dw.data != nullptr;
  const HeadLayout l = lay_out(args.x.dtype, rows, args.x.shape.last(), args.part.stored, training);
  check_args(args, l.total());
  HeadResult result;
  for (int64_t begin = 0; begin < rows; begin += kHeadRows) {
    const Chunk c = chunk_at(args, l, begin);
    // The loss alone follows from the statistics of all parts.
    if (training || args.statistics.data == nullptr) make_logits(cpu, c);
    make_statistics(cpu, c);
    for (int64_t row = 0; row < c.rows; ++row) {
      const double mask = static_cast<double>(c.mask[row]);
      if (mask == 0) continue;
      result.loss_sum += mask * (static_cast<double>(c.lse[row]) - static_cast<double>(c.label_logit[row]));
      result.tokens += mask;
    }
    if (!training) continue;
    make_logit_gradient(cpu, c);
    if (args.dx.data != nullptr) make_input_gradient(cpu, c);
    if (args.dw.data != nullptr) make_weight_gradient(cpu, c);
  }
  return result;
}

void head_statistics(const Cpu& cpu, const HeadArgs& args, const tensor::TensorView& statistics) {
  const int64_t rows = args.x.shape.rows();
  const HeadLayout l = lay_out(args.x.dtype, rows, args.x.shape.last(), args.part.stored, false);
  INGOT_CHECK(static_cast<int64_t>(args.workspace.size()) >= l.total(), "workspace of {} bytes, {} needed",
              args.workspace.size(), l.total());
  INGOT_CHECK(statistics.elements() == rows * 3, "statistics {} of {} rows", statistics.shape.to_string(),
              rows);
  for (int64_t begin = 0; begin < rows; begin += kHeadRows) {
    const Chunk c = chunk_at(args, l, begin);
    make_logits(cpu, c);
    for_rows(cpu, c, [&](int64_t row) {
      const RowStatistics s = own_statistics(c, row);
      float* to = statistics.as<float>() + (begin + row) * 3;
      to[0] = s.softmax.highest;
      to[1] = s.softmax.sum;
      to[2] = s.label_logit;
    });
  }
}

}  // namespace ingot::backend::cpu
