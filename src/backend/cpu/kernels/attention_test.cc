#include "backend/cpu/kernels/attention.h"

#include <gtest/gtest.h>

#include <array>

#include "backend/cpu/kernels/kernel_testing.h"

namespace ingot::backend::cpu {
namespace {

using testing::as_workspace;
using testing::DType;
using testing::random_tensor;
using testing::relative_error;
using testing::TensorView;
using testing::TestTensor;
using testing::workspace_of;

enum class MaskKind { kCausal, kDocuments, kShuffled };

struct Case {
  DType dtype;
  AttentionShape shape;
  MaskKind mask;
};

struct Expected {
  std::vector<double> o, lse, dq, dk, dv;
};

// Attention and its gradients in double, query by query.
class Loop {
 public:
  Loop(const AttentionShape& s, double scale, const TestTensor& q, const TestTensor& k, const TestTensor& v,
       const TestTensor& grad_o, const TestTensor& position, const TestTensor& key_position,
       const TestTensor& doc_start)
      : s_(s),
        scale_(scale),
        q_(q),
        k_(k),
        v_(v),
        grad_o_(grad_o),
        position_(position),
        key_position_(key_position),
        doc_start_(doc_start) {}

  Expected run() {
    const auto query_size = static_cast<size_t>(q_.size()), key_size = static_cast<size_t>(k_.size());
    out_ = {std::vector<double>(query_size),
            std::vector<double>(query_size / static_cast<size_t>(s_.head_size)),
            std::vector<double>(query_size), std::vector<double>(key_size), std::vector<double>(key_size)};
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (int64_t h = 0; h < s_.heads; ++h) {
        for (int64_t t = 0; t < s_.seq_len; ++t) query(b, h, t);
      }
    }
    return out_;
  }

 private:
  int64_t key_at(int64_t b, int64_t h, int64_t s) const {
    return ((b * s_.key_len() + s) * s_.kv_heads + h / (s_.heads / s_.kv_heads)) * s_.head_size;
  }
  void query(int64_t b, int64_t h, int64_t t) {
    const int64_t row = b * s_.seq_len + t, at = (row * s_.heads + h) * s_.head_size;
    std::vector<int64_t> seen;
    std::vector<double> p;
    double sum = 0;
    for (int64_t s = 0; s < s_.key_len(); ++s) {
      const double pos = key_position_.at(b * s_.key_len() + s);
      if (pos < doc_start_.at(row) || pos > position_.at(row)) continue;
      double score = 0;
      for (int64_t c = 0; c < s_.head_size; ++c) score += q_.at(at + c) * k_.at(key_at(b, h, s) + c);
      seen.push_back(s);
      p.push_back(std::exp(scale_ * score));
      sum += p.back();
    }
    out_.lse[static_cast<size_t>(row * s_.heads + h)] = std::log(sum);
    std::vector<double> dp(seen.size());
    double delta = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      p[i] /= sum;
      for (int64_t c = 0; c < s_.head_size; ++c) {
        const int64_t kv = key_at(b, h, seen[i]) + c;
        out_.o[static_cast<size_t>(at + c)] += p[i] * v_.at(kv);
        out_.dv[static_cast<size_t>(kv)] += p[i] * grad_o_.at(at + c);
        dp[i] += grad_o_.at(at + c) * v_.at(kv);
      }
      delta += p[i] * dp[i];
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      const double ds = scale_ * p[i] * (dp[i] - delta);
      for (int64_t c = 0; c < s_.head_size; ++c) {
        const int64_t kv = key_at(b, h, seen[i]) + c;
        out_.dq[static_cast<size_t>(at + c)] += ds * k_.at(kv);
        out_.dk[static_cast<size_t>(kv)] += ds * q_.at(at + c);
      }
    }
  }

  const AttentionShape s_;
  const double scale_;
  const TestTensor &q_, &k_, &v_, &grad_o_, &position_, &key_position_, &doc_start_;
  Expected out_;
};

void fill_masks(MaskKind kind, const AttentionShape& s, TestTensor& position, TestTensor& doc_start) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.seq_len; ++t) {
      const int64_t at = b * s.seq_len + t;
      // Shuffled: halves change places, as a rank of context parallelism may hold them.
      const int64_t p = kind == MaskKind::kShuffled ? (t + s.seq_len / 2) % s.seq_len : t;
      position.set(at, static_cast<double>(p));
      const int64_t first = s.seq_len / 3, second = s.seq_len / 3 * 2 + b;
      doc_start.set(at, kind == MaskKind::kCausal ? 0.0
                                                  : static_cast<double>(p >= second  ? second
                                                                        : p >= first ? first
                                                                                     : 0));
    }
  }
}

void check_case(const Case& c) {
  const AttentionShape& s = c.shape;
  const int64_t width = s.heads * s.head_size, kv_width = s.kv_heads * s.head_size;
  const TestTensor q = random_tensor(c.dtype, {s.batch, s.seq_len, width}, 1, 2);
  const TestTensor k = random_tensor(c.dtype, {s.batch, s.seq_len, kv_width}, 2, 2);
  const TestTensor v = random_tensor(c.dtype, {s.batch, s.seq_len, kv_width}, 3);
  const TestTensor grad_o = random_tensor(c.dtype, {s.batch, s.seq_len, width}, 4);
  TestTensor position(DType::kI32, {s.batch, s.seq_len}), doc_start(DType::kI32, {s.batch, s.seq_len});
  fill_masks(c.mask, s, position, doc_start);
  const float scale = 1.0F / std::sqrt(static_cast<float>(s.head_size));
  const Expected expected =
      Loop(s, static_cast<double>(scale), q, k, v, grad_o, position, position, doc_start).run();
  // P and dS are rounded to bf16 before their products, a little more than the output's own rounding.
  const double bound = c.dtype == DType::kBF16 ? 5e-3 : 1e-5;
  testing::for_each_cpu([&](const Cpu& cpu) {
    const int threads = cpu.pool.threads();
    TestTensor o(c.dtype, {s.batch, s.seq_len, width}), lse(DType::kF32, {s.batch, s.seq_len, s.heads});
    TestTensor dq(c.dtype, {s.batch, s.seq_len, width});
    TestTensor dk(c.dtype, {s.batch, s.seq_len, kv_width}), dv(c.dtype, {s.batch, s.seq_len, kv_width});
    TestTensor forward = workspace_of(attention_forward_workspace_bytes(c.dtype, s, threads));
    TestTensor backward = workspace_of(attention_backward_workspace_bytes(c.dtype, s, threads));
    const bool plain = c.mask == MaskKind::kCausal;
    AttentionArgs args{.shape = s,
                       .scale = scale,
                       .q = q.view(),
                       .k = k.view(),
                       .v = v.view(),
                       .position = {},
                       .doc_start = {},
                       .o = o.view(),
                       .lse = lse.view(),
                       .workspace = as_workspace(forward)};
    if (!plain) {
      args.position = position.view();
      args.doc_start = doc_start.view();
    }
    attention_forward(cpu, args);
    args.workspace = as_workspace(backward);
    attention_backward(cpu, args, {grad_o.view(), dq.view(), dk.view(), dv.view()});
    const auto where = [&] {
      return ::testing::Message() << tensor::name_of(c.dtype) << " T " << s.seq_len << " H " << s.heads
                                  << " G " << s.kv_heads << " D " << s.head_size << " mask "
                                  << static_cast<int>(c.mask) << " native " << cpu.native_bf16;
    };
    EXPECT_LT(relative_error(o, expected.o), bound) << where();
    EXPECT_LT(relative_error(lse, expected.lse), 1e-5) << where();
    EXPECT_LT(relative_error(dq, expected.dq), bound) << where();
    EXPECT_LT(relative_error(dk, expected.dk), bound) << where();
    EXPECT_LT(relative_error(dv, expected.dv), bound) << where();
    EXPECT_TRUE(forward.guards_hold() && backward.guards_hold() && o.guards_hold() && lse.guards_hold() &&
                dq.guards_hold() && dk.guards_hold() && dv.guards_hold())
        << where();
    return o.bits() + lse.bits() + dq.bits() + dk.bits() + dv.bits();
  });
}

TEST(AttentionTest, EqualsALoop) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const MaskKind mask : {MaskKind::kCausal, MaskKind::kDocuments, MaskKind::kShuffled}) {
      check_case({dtype, {1, 1, 1, 1, 2}, mask});
      check_case({dtype, {2, 7, 3, 1, 6}, mask});
      check_case({dtype, {1, 65, 2, 2, 64}, mask});
      check_case({dtype, {1, 130, 2, 1, 34}, mask});
      check_case({dtype, {1, 100, 4, 2, 128}, mask});
      check_case({dtype, {2, 64, 1, 1, 32}, mask});
    }
  }
}

// One rank's queries (a chunk of the head of the sequence and one of the tail) and the keys of all ranks, at
// once or block by block.
class ContextCase {
 public:
  static constexpr int64_t kRanks = 3;

  ContextCase(DType dtype, int64_t chunk, int64_t rank)
      : dtype_(dtype),
        held_(2 * chunk),
        rank_(rank),
        all_{2, held_, 4, 2, 16, kRanks * held_},
        q_(random_tensor(dtype, {2, held_, 64}, 1, 2)),
        k_(random_tensor(dtype, {2, kRanks * held_, 32}, 2, 2)),
        v_(random_tensor(dtype, {2, kRanks * held_, 32}, 3)),
        grad_o_(random_tensor(dtype, {2, held_, 64}, 4)),
        position_(DType::kI32, {2, held_}),
        key_position_(DType::kI32, {2, kRanks * held_}),
        doc_start_(DType::kI32, {2, held_}) {
    const auto position_of = [&](int64_t r, int64_t t) {
      return t < chunk ? r * chunk + t : (2 * kRanks - 1 - r) * chunk + t - chunk;
    };
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t s = 0; s < kRanks * held_; ++s)
        key_position_.set(b * kRanks * held_ + s, static_cast<double>(position_of(s / held_, s % held_)));
      for (int64_t t = 0; t < held_; ++t) {
        const int64_t p = position_of(rank, t), second = kRanks * chunk + b;
        position_.set(b * held_ + t, static_cast<double>(p));
        doc_start_.set(b * held_ + t, b == 1 && p >= second ? static_cast<double>(second) : 0);
      }
    }
    expected_ = Loop(all_, 0.25, q_, k_, v_, grad_o_, position_, key_position_, doc_start_).run();
  }

  std::string gathered(const Cpu& cpu) const {
    Result result(*this);
    run_forward(cpu, all_, k_, v_, key_position_, result.o, result.lse);
    run_backward(cpu, all_, k_, v_, key_position_, result, result.dq, result.dk, result.dv);
    return check(result, "gathered");
  }

  std::string round(const Cpu& cpu) const {
    AttentionShape block = all_;
    block.keys = held_;
    Result result(*this);
    TestTensor sum(DType::kF32, {2, held_, 64}), sum_lse(DType::kF32, {2, held_, 4});
    for (int64_t step = 0; step < kRanks; ++step) {
      const int64_t from = (rank_ + kRanks - step) % kRanks;
      TestTensor o(dtype_, {2, held_, 64}), lse(DType::kF32, {2, held_, 4});
      run_forward(cpu, block, part(k_, from), part(v_, from), part(key_position_, from), o, lse);
      TestTensor& to = step + 1 == kRanks ? result.o : sum;
      AttentionMergeArgs merge{sum.view(),     o.view(),
                               sum_lse.view(), lse.view(),
                               to.view(),      step + 1 == kRanks ? result.lse.view() : sum_lse.view()};
      if (step == 0) {
        for (int64_t i = 0; i < sum.size(); ++i) sum.set(i, o.at(i));
        for (int64_t i = 0; i < lse.size(); ++i) sum_lse.view().as<float>()[i] = lse.view().as<float>()[i];
      } else {
        merge_attention(cpu, merge);
      }
    }
    std::vector<double> dq(static_cast<size_t>(q_.size()), 0);
    for (int64_t from = 0; from < kRanks; ++from) {
      TestTensor block_dq(dtype_, {2, held_, 64}), dk(dtype_, {2, held_, 32}), dv(dtype_, {2, held_, 32});
      run_backward(cpu, block, part(k_, from), part(v_, from), part(key_position_, from), result, block_dq,
                   dk, dv);
      for (size_t i = 0; i < dq.size(); ++i) dq[i] += block_dq.at(static_cast<int64_t>(i));
      for (int64_t i = 0; i < dk.size(); ++i) {
        const int64_t row = held_ * 32, at = (i / row * kRanks + from) * row + i % row;
        result.dk.set(at, dk.at(i));
        result.dv.set(at, dv.at(i));
      }
    }
    for (size_t i = 0; i < dq.size(); ++i) result.dq.set(static_cast<int64_t>(i), dq[i]);
    return check(result, "round");
  }

 private:
  struct Result {
    explicit Result(const ContextCase& c)
        : o(c.dtype_, {2, c.held_, 64}),
          lse(DType::kF32, {2, c.held_, 4}),
          dq(c.dtype_, {2, c.held_, 64}),
          dk(c.dtype_, {2, kRanks * c.held_, 32}),
          dv(c.dtype_, {2, kRanks * c.held_, 32}) {}
    TestTensor o, lse, dq, dk, dv;
  };

  // Rank `from`'s of [B, S, ...].
  TestTensor part(const TestTensor& whole, int64_t from) const {
    const int64_t width = whole.size() / (2 * kRanks * held_), row = held_ * width;
    TestTensor result(whole.view().dtype, {2, held_, width});
    for (int64_t i = 0; i < result.size(); ++i)
      result.set(i, whole.at((i / row * kRanks + from) * row + i % row));
    return result;
  }

  AttentionArgs arguments(const AttentionShape& shape, const TestTensor& k, const TestTensor& v,
                          const TestTensor& key_position, const TestTensor& o, const TestTensor& lse,
                          const TestTensor& workspace) const {
    return {.shape = shape,
            .scale = 0.25F,
            .q = q_.view(),
            .k = k.view(),
            .v = v.view(),
            .position = position_.view(),
            .key_position = key_position.view(),
            .doc_start = doc_start_.view(),
            .o = o.view(),
            .lse = lse.view(),
            .workspace = as_workspace(workspace)};
  }

  void run_forward(const Cpu& cpu, const AttentionShape& shape, const TestTensor& k, const TestTensor& v,
                   const TestTensor& key_position, TestTensor& o, TestTensor& lse) const {
    TestTensor workspace = workspace_of(attention_forward_workspace_bytes(dtype_, shape, cpu.pool.threads()));
    attention_forward(cpu, arguments(shape, k, v, key_position, o, lse, workspace));
    EXPECT_TRUE(workspace.guards_hold() && o.guards_hold() && lse.guards_hold());
  }

  void run_backward(const Cpu& cpu, const AttentionShape& shape, const TestTensor& k, const TestTensor& v,
                    const TestTensor& key_position, const Result& of, TestTensor& dq, TestTensor& dk,
                    TestTensor& dv) const {
    TestTensor workspace =
        workspace_of(attention_backward_workspace_bytes(dtype_, shape, cpu.pool.threads()));
    attention_backward(cpu, arguments(shape, k, v, key_position, of.o, of.lse, workspace),
                       {grad_o_.view(), dq.view(), dk.view(), dv.view()});
    EXPECT_TRUE(workspace.guards_hold() && dq.guards_hold() && dk.guards_hold() && dv.guards_hold());
  }

  std::string check(const Result& r, const char* how) const {
    const double bound = dtype_ == DType::kBF16 ? 7e-3 : 1e-5;
    EXPECT_LT(relative_error(r.o, expected_.o), bound) << how << " " << held_ << " rank " << rank_;
    EXPECT_LT(relative_error(r.lse, expected_.lse), 1e-5) << how << " " << held_ << " rank " << rank_;
    EXPECT_LT(relative_error(r.dq, expected_.dq), bound) << how << " " << held_ << " rank " << rank_;
    EXPECT_LT(relative_error(r.dk, expected_.dk), bound) << how << " " << held_ << " rank " << rank_;
    EXPECT_LT(relative_error(r.dv, expected_.dv), bound) << how << " " << held_ << " rank " << rank_;
    return r.o.bits() + r.lse.bits() + r.dq.bits() + r.dk.bits() + r.dv.bits();
  }

  DType dtype_;
  int64_t held_, rank_;
  AttentionShape all_;
  TestTensor q_, k_, v_, grad_o_, position_, key_position_, doc_start_;
  Expected expected_;
};

TEST(AttentionTest, KeysOfOtherRanksAtOnceOrBlockByBlockEqualALoop) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t chunk : {5, 32, 96, 70}) {
      for (int64_t rank = 0; rank < ContextCase::kRanks; ++rank) {
        const ContextCase c(dtype, chunk, rank);
        testing::for_each_cpu([&](const Cpu& cpu) { return c.gathered(cpu) + c.round(cpu); });
      }
    }
  }
}

TEST(AttentionTest, SideBySideTensorsAreReadAndWrittenByStride) {
  const AttentionShape s{2, 33, 2, 1, 8};
  const int64_t stride = 4 * s.head_size, row = 3 * s.head_size;
  const TestTensor qkv = random_tensor(DType::kF32, {s.batch, s.seq_len, stride}, 1);
  const TestTensor grad_o = random_tensor(DType::kF32, {s.batch, s.seq_len, 2 * s.head_size}, 2);
  ThreadPool pool(2, flush_denormals);
  const Cpu cpu{pool};
  const auto run = [&](bool together) {
    TestTensor q(DType::kF32, {s.batch, s.seq_len, 16}), k(DType::kF32, {s.batch, s.seq_len, 8}),
        v(DType::kF32, {s.batch, s.seq_len, 8});
    for (int64_t r = 0; r < s.batch * s.seq_len; ++r) {
      for (int64_t c = 0; c < 16; ++c) q.set(r * 16 + c, qkv.at(r * stride + c));
      for (int64_t c = 0; c < 8; ++c) k.set(r * 8 + c, qkv.at(r * stride + 16 + c));
      for (int64_t c = 0; c < 8; ++c) v.set(r * 8 + c, qkv.at(r * stride + row + c));
    }
    const auto part = [&](const TestTensor& t, int64_t offset) {
      return TensorView{t.view().as<float>() + offset, DType::kF32, t.view().shape};
    };
    TestTensor o(DType::kF32, {s.batch, s.seq_len, 16}), lse(DType::kF32, {s.batch, s.seq_len, 2});
    TestTensor grad(DType::kF32, {s.batch, s.seq_len, stride}), dq(DType::kF32, {s.batch, s.seq_len, 16});
    TestTensor dk(DType::kF32, {s.batch, s.seq_len, 8}), dv(DType::kF32, {s.batch, s.seq_len, 8});
    TestTensor workspace = workspace_of(attention_backward_workspace_bytes(DType::kF32, s, 2));
    AttentionArgs args{.shape = s,
                       .scale = 0.3F,
                       .q = together ? part(qkv, 0) : q.view(),
                       .k = together ? part(qkv, 16) : k.view(),
                       .v = together ? part(qkv, row) : v.view(),
                       .q_stride = together ? stride : 0,
                       .kv_stride = together ? stride : 0,
                       .position = {},
                       .doc_start = {},
                       .o = o.view(),
                       .lse = lse.view(),
                       .workspace = as_workspace(workspace)};
    attention_forward(cpu, args);
    if (!together) {
      attention_backward(cpu, args, {grad_o.view(), dq.view(), dk.view(), dv.view()});
      for (int64_t r = 0; r < s.batch * s.seq_len; ++r) {
        for (int64_t c = 0; c < 16; ++c) grad.set(r * stride + c, dq.at(r * 16 + c));
        for (int64_t c = 0; c < 8; ++c) grad.set(r * stride + 16 + c, dk.at(r * 8 + c));
        for (int64_t c = 0; c < 8; ++c) grad.set(r * stride + row + c, dv.at(r * 8 + c));
      }
    } else {
      attention_backward(cpu, args, {grad_o.view(), part(grad, 0), part(grad, 16), part(grad, row)});
    }
    return o.bits() + lse.bits() + grad.bits();
  };
  EXPECT_TRUE(run(true) == run(false));
}

// A NaN must reach the gradients' norm, where the step is skipped, and may not end as a small probability.
TEST(AttentionTest, NanOfAQueryOrKeyIsSeenByItsReaders) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionShape s{1, 40, 1, 1, 16};
    TestTensor q = random_tensor(dtype, {1, 40, 16}, 1), k = random_tensor(dtype, {1, 40, 16}, 2);
    const TestTensor v = random_tensor(dtype, {1, 40, 16}, 3);
    k.set(20 * 16 + 3, std::nan(""));
    q.set(5 * 16 + 1, std::nan(""));
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor o(dtype, {1, 40, 16}), lse(DType::kF32, {1, 40, 1});
      TestTensor workspace = workspace_of(attention_forward_workspace_bytes(dtype, s, cpu.pool.threads()));
      attention_forward(cpu, {.shape = s,
                              .scale = 0.25F,
                              .q = q.view(),
                              .k = k.view(),
                              .v = v.view(),
                              .position = {},
                              .doc_start = {},
                              .o = o.view(),
                              .lse = lse.view(),
                              .workspace = as_workspace(workspace)});
      for (int64_t t = 0; t < 40; ++t) EXPECT_EQ(std::isnan(o.at(t * 16)), t == 5 || t >= 20) << t;
      return lse.bits();
    });
  }
}

// Tokens one by one through the cache equal attention over the whole sequence.
TEST(CachedAttentionTest, EqualsAttentionOverTheSequence) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionShape s{2, 21, 4, 2, 10};
    const int64_t width = s.heads * s.head_size, kv_width = s.kv_heads * s.head_size, cache_rows = 32;
    const TestTensor q = random_tensor(dtype, {s.batch, s.seq_len, width}, 1, 2);
    const TestTensor k = random_tensor(dtype, {s.batch, s.seq_len, kv_width}, 2, 2);
    const TestTensor v = random_tensor(dtype, {s.batch, s.seq_len, kv_width}, 3);
    TestTensor position(DType::kI32, {s.batch, s.seq_len}), doc_start(DType::kI32, {s.batch, s.seq_len});
    fill_masks(MaskKind::kDocuments, s, position, doc_start);
    const Expected expected = Loop(s, 0.3F, q, k, v, q, position, position, doc_start).run();
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor keys(dtype, {s.batch, cache_rows, kv_width}), values(dtype, {s.batch, cache_rows, kv_width});
      TestTensor o(dtype, {s.batch, s.seq_len, width});
      TestTensor workspace = workspace_of(cached_attention_workspace_bytes(cache_rows, cpu.pool.threads()));
      keys.fill_bytes(0xff);
      values.fill_bytes(0xff);
      for (int64_t begin = 0, count = 5; begin < s.seq_len; begin += count, count = 1) {
        const auto rows = [&](const TestTensor& from, int64_t columns) {
          TestTensor part(from.view().dtype, {s.batch, count, columns});
          for (int64_t i = 0; i < part.size(); ++i) {
            const int64_t b = i / (count * columns);
            part.set(i, from.at((b * s.seq_len + begin) * columns + i % (count * columns)));
          }
          return part;
        };
        const TestTensor at = rows(position, 1), start = rows(doc_start, 1), query = rows(q, width);
        const TestTensor key = rows(k, kv_width), value = rows(v, kv_width);
        TestTensor out(dtype, {s.batch, count, width});
        cache_append(cpu, {key.view(), value.view(), at.view(), keys.view(), values.view()});
        cached_attention(cpu, {.shape = {s.batch, count, s.heads, s.kv_heads, s.head_size},
                               .scale = 0.3F,
                               .q = query.view(),
                               .key_cache = keys.view(),
                               .value_cache = values.view(),
                               .position = at.view(),
                               .doc_start = start.view(),
                               .o = out.view(),
                               .workspace = as_workspace(workspace)});
        EXPECT_TRUE(out.guards_hold());
        for (int64_t i = 0; i < out.size(); ++i) {
          const int64_t b = i / (count * width);
          o.set((b * s.seq_len + begin) * width + i % (count * width), out.at(i));
        }
      }
      EXPECT_LT(relative_error(o, expected.o), testing::bound_of(dtype));
      EXPECT_TRUE(keys.guards_hold() && values.guards_hold() && workspace.guards_hold());
      return o.bits();
    });
  }
}

}  // namespace
}  // namespace ingot::backend::cpu
