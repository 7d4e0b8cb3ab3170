#include "backend/cpu/kernels/elementwise.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/float_types.h"
#include "backend/cpu/kernels/span_operations.h"

namespace ingot::backend::cpu {
namespace {

using tensor::DType;
using tensor::TensorView;

constexpr int64_t kSpan = 16384;
constexpr int64_t kRows = 16;  // of one task, where work goes by rows

unsigned bit_if_bf16(const TensorView& view, unsigned bit) { return view.dtype == DType::kBF16 ? bit : 0; }

template <class Body>
void for_spans(const Cpu& cpu, int64_t elements, const Body& body) {
  cpu.pool.parallel_for((elements + kSpan - 1) / kSpan, [&](int64_t tile, int) {
    body(tile * kSpan, std::min(elements, (tile + 1) * kSpan));
  });
}

template <class Body>
void for_rows(const Cpu& cpu, int64_t rows, const Body& body) {
  cpu.pool.parallel_for((rows + kRows - 1) / kRows, [&](int64_t tile, int) {
    for (int64_t row = tile * kRows; row < std::min(rows, (tile + 1) * kRows); ++row) body(row);
  });
}

// Row `row` of [B, T, …]: its position, data or its index in the sample.
int64_t position_of(const TensorView& position, int64_t row, int64_t seq_len) {
  return position.data == nullptr ? row % seq_len : int64_t{position.as<const int32_t>()[row]};
}

}  // namespace

void add(const Cpu& cpu, const TensorView& a, const TensorView& b, const TensorView& y) {
  check_float(a);
  check_float(b);
  check_same(a, b);
  check_same(a, y);
  INGOT_CHECK(a.dtype == y.dtype, "the sum has the type of its first operand");
  const AddSpan span{bit_if_bf16(a, 1) | bit_if_bf16(b, 2), a.data, b.data, 1.0F, y.data};
  for_spans(cpu, a.elements(), [&](int64_t begin, int64_t end) { run_add_span(span, begin, end); });
}

void accumulate(const Cpu& cpu, float factor, const TensorView& x, const TensorView& y) {
  check_float(x);
  check_float(y);
  check_same(x, y);
  const AddSpan span{bit_if_bf16(y, 1) | bit_if_bf16(x, 2), y.data, x.data, factor, y.data};
  for_spans(cpu, x.elements(), [&](int64_t begin, int64_t end) { run_add_span(span, begin, end); });
}

void cast(const Cpu& cpu, const TensorView& from, const TensorView& to, float factor) {
  check_float(from);
  check_float(to);
  check_same(from, to);
  const CastSpan span{bit_if_bf16(from, 1) | bit_if_bf16(to, 2), from.data, factor, to.data};
  for_spans(cpu, from.elements(), [&](int64_t begin, int64_t end) { run_cast_span(span, begin, end); });
}

void zero(const Cpu& cpu, const TensorView& to) {
  constexpr int64_t kBytes = 256 << 10;
  const int64_t bytes = to.bytes();
  cpu.pool.parallel_for((bytes + kBytes - 1) / kBytes, [&](int64_t tile, int) {
    const int64_t count = std::min(kBytes, bytes - tile * kBytes);
    std::memset(to.as<std::byte>() + tile * kBytes, 0, static_cast<size_t>(count));
  });
}

void dropout(const Cpu& cpu, const DropoutArgs& args) {
  check_float(args.x);
  check_same(args.x, args.y);
  INGOT_CHECK(args.x.dtype == args.y.dtype && args.x.shape.rank() == 3, "dropout of {} into {}",
              args.x.shape.to_string(), args.y.shape.to_string());
  INGOT_CHECK(args.rate >= 0 && args.rate < 1, "a dropout rate of {} is not in [0, 1)", args.rate);
  const int64_t seq_len = args.x.shape[1], own = args.x.shape.last();
  const int64_t channels = args.channels == 0 ? own : args.channels;
  for_rows(cpu, args.x.shape.rows(), [&](int64_t row) {
    const int64_t first = position_of(args.position, row, seq_len) * channels + args.channel_offset;
    const int64_t sample = args.sample.as<const int64_t>()[row / seq_len];
    run_dropout_row(args, row, static_cast<uint64_t>(first), static_cast<uint64_t>(sample));
  });
}

void rotary(const Cpu& cpu, const RotaryArgs& args) {
  check_float(args.x);
  check_same(args.x, args.y);
  INGOT_CHECK(args.x.dtype == args.y.dtype && args.x.shape.rank() == 3, "rotary of {} into {}",
              args.x.shape.to_string(), args.y.shape.to_string());
  INGOT_CHECK(args.head_size % 2 == 0 && args.head_size > 0 && args.x.shape.last() % args.head_size == 0 &&
                  args.inv_freq.elements() == args.head_size / 2,
              "heads of {} in rows of {}, {} frequencies", args.head_size, args.x.shape.last(),
              args.inv_freq.elements());
  const int64_t seq_len = args.x.shape[1];
  for_rows(cpu, args.x.shape.rows(), [&](int64_t row) {
    int64_t position = position_of(args.position, row, seq_len);
    if (args.doc_start.data != nullptr) position -= args.doc_start.as<const int32_t>()[row];
    run_rotary_row(args, row, static_cast<float>(position));
  });
}

}  // namespace ingot::backend::cpu
