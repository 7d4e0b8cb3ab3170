#include "data/tokenizer/bpe_merge.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // the undefined lanes of g++ 12's own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace ingot::data {
namespace {

constexpr uint32_t kNone = PairTable::kNone;
constexpr size_t kShortBytes = 64;

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

// Up to 64 bytes: a scan for the lowest rank, and the tail moved down after each merge.
uint32_t* merge_short(const MergeTables& tables, const char* p, size_t n, uint32_t* out) {
  std::array<uint32_t, kShortBytes> ranks;  // of the pair (i, i + 1)
  for (size_t i = 0; i < n; ++i) out[i] = tables.byte_id(byte_of(p[i]));
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = tables.byte_pair_rank(byte_of(p[i]), byte_of(p[i + 1]));
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNone) break;
    out[best] = tables.product(ranks[best]);
    --n;
    std::memmove(out + best + 1, out + best + 2, (n - best - 1) * sizeof(uint32_t));
    if (best + 1 < n) {
      std::memmove(&ranks[best + 1], &ranks[best + 1] + 1, (n - best - 2) * sizeof(uint32_t));
      ranks[best] = tables.rank(out[best], out[best + 1]);
    }
    if (best > 0) ranks[best - 1] = tables.rank(out[best - 1], out[best]);
  }
  return out + n;
}

#if defined(__x86_64__)

bool has_avx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("bmi"); }

// The same with the keys rank << 6 | position in registers: no store is read back, and one reduction finds
// the pair.
template <int kVectors>
__attribute__((target("avx512f,bmi"))) uint32_t* merge_short_avx512(const MergeTables& tables, const char* p,
                                                                    size_t n, uint32_t* out) {
  constexpr size_t kSlots = kVectors * 16;
  alignas(64) std::array<uint32_t, kSlots> start;
  std::array<uint32_t, kSlots> symbols;
  start.fill(~uint32_t{0});
  for (size_t i = 0; i < n; ++i) symbols[i] = tables.byte_id(byte_of(p[i]));
  for (size_t i = 0; i + 1 < n; ++i) {
    start[i] = tables.byte_pair_rank(byte_of(p[i]), byte_of(p[i + 1])) << 6 | static_cast<uint32_t>(i);
  }
  __m512i keys[kVectors];
  for (int v = 0; v < kVectors; ++v) keys[v] = _mm512_load_si512(start.data() + 16 * v);
  uint64_t alive = n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;  // positions where a symbol begins
  for (;;) {
    __m512i lowest = keys[0];
    for (int v = 1; v < kVectors; ++v) lowest = _mm512_min_epu32(lowest, keys[v]);
    const uint32_t key = _mm512_reduce_min_epu32(lowest);
    if (key >= kNone << 6) break;
    const uint32_t at = key & 63;
    const uint32_t symbol = tables.product(key >> 6);
    uint64_t after = alive & ~uint64_t{1} << at;
    const uint64_t merged_bit = after & (~after + 1);
    alive ^= merged_bit;
    after ^= merged_bit;
    symbols[at] = symbol;
    uint32_t right_key = ~uint32_t{0};
    if (after != 0)
      right_key = tables.rank(symbol, symbols[static_cast<size_t>(std::countr_zero(after))]) << 6 | at;
    const uint64_t before = alive & ((uint64_t{1} << at) - 1);
    uint32_t left_key = ~uint32_t{0};
    uint64_t left_bit = 0;
    if (before != 0) {
      const uint32_t left = 63 - static_cast<uint32_t>(std::countl_zero(before));
      left_bit = uint64_t{1} << left;
      left_key = tables.rank(symbols[left], symbol) << 6 | left;
    }
    for (int v = 0; v < kVectors; ++v) {
      const auto lanes = [v](uint64_t bits) { return static_cast<__mmask16>(bits >> (16 * v)); };
      keys[v] = _mm512_mask_set1_epi32(keys[v], lanes(uint64_t{1} << at), static_cast<int>(right_key));
      keys[v] = _mm512_mask_set1_epi32(keys[v], lanes(merged_bit), -1);
      keys[v] = _mm512_mask_set1_epi32(keys[v], lanes(left_bit), static_cast<int>(left_key));
    }
  }
  for (; alive != 0; alive &= alive - 1) *out++ = symbols[static_cast<size_t>(std::countr_zero(alive))];
  return out;
}

#endif

// Any length: a linked list of symbols, and a queue whose entries are stale when the pair there has changed
// since.
uint32_t* merge_long(const MergeTables& tables, const char* p, size_t n, uint32_t* out,
                     MergeScratch& scratch) {
  INGOT_CHECK(n < uint64_t{1} << 32, "a piece of {} bytes", n);
  std::vector<MergeScratch::Node>& nodes = scratch.nodes;
  MergeQueue& queue = scratch.queue;
  nodes.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t rank = i + 1 < n ? tables.byte_pair_rank(byte_of(p[i]), byte_of(p[i + 1])) : kNone;
    nodes[i] = {tables.byte_id(byte_of(p[i])), i + 1, i - 1, rank};
    if (rank != kNone) queue.push(rank, i);
  }
  const auto set_rank = [&](uint32_t at, uint32_t rank) {
    nodes[at].rank = rank;
    if (rank != kNone) queue.push(rank, at);
  };
  while (const auto entry = queue.pop()) {
    const uint32_t at = entry->position;
    if (nodes[at].rank != entry->rank) continue;
    const uint32_t gone = nodes[at].next;
    const uint32_t right = nodes[gone].next;
    nodes[at].symbol = tables.product(entry->rank);
    nodes[at].next = right;
    nodes[gone].rank = nodes[at].rank = kNone;
    if (right < n) {
      nodes[right].previous = at;
      set_rank(at, tables.rank(nodes[at].symbol, nodes[right].symbol));
    }
    const uint32_t left = nodes[at].previous;
    if (left < n) set_rank(left, tables.rank(nodes[left].symbol, nodes[at].symbol));
  }
  for (uint32_t i = 0; i < n; i = nodes[i].next) *out++ = nodes[i].symbol;
  return out;
}

}  // namespace

MergeTables::MergeTables(const std::array<uint32_t, 256>& byte_ids, size_t pairs)
    : byte_ids_(byte_ids), pairs_(pairs), byte_pairs_(65536, kNone) {}

MergeTables::MergeTables(const std::array<uint32_t, 256>& byte_ids, std::span<const Merge> merges)
    : MergeTables(byte_ids, merges.size()) {
  product_offset_ = merges.empty() ? 0 : merges[0].product;
  bool constant_offset = true;
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const bool is_new = pairs_.insert(merges[rank].left, merges[rank].right, rank);
    INGOT_CHECK(is_new, "merge {} of {} and {} is a repetition", rank, merges[rank].left, merges[rank].right);
    constant_offset = constant_offset && merges[rank].product == rank + product_offset_;
  }
  if (!constant_offset) {
    for (const Merge& merge : merges) products_.push_back(merge.product);
  }
  update_byte_pairs();
}

void MergeTables::update_byte_pairs() {
  for (size_t pair = 0; pair < byte_pairs_.size(); ++pair) {
    byte_pairs_[pair] = pairs_.find(byte_ids_[pair >> 8], byte_ids_[pair & 255]);
  }
}

uint32_t* merge_piece(const MergeTables& tables, const char* p, size_t n, uint32_t* out,
                      MergeScratch& scratch) {
  if (n > kShortBytes) return merge_long(tables, p, n, out, scratch);
#if defined(__x86_64__)
  static const bool kWide = has_avx512();
  if (kWide) {
    if (n <= 16) return merge_short_avx512<1>(tables, p, n, out);
    if (n <= 32) return merge_short_avx512<2>(tables, p, n, out);
    return merge_short_avx512<4>(tables, p, n, out);
  }
#endif
  return merge_short(tables, p, n, out);
}

std::vector<Merge> split_ranks(std::span<const std::string> tokens,
                               const std::array<uint32_t, 256>& byte_ids) {
  std::vector<uint32_t> by_length(tokens.size());
  std::iota(by_length.begin(), by_length.end(), 0);
  std::stable_sort(by_length.begin(), by_length.end(),
                   [&](uint32_t a, uint32_t b) { return tokens[a].size() < tokens[b].size(); });
  // Merging the bytes of a token of n bytes passes only through shorter tokens, whose pairs are known by
  // then.
  MergeTables tables(byte_ids, tokens.size());
  std::vector<Merge> merges;
  MergeScratch scratch;
  std::vector<uint32_t> symbols;
  bool has_byte_pairs = false;
  for (const uint32_t id : by_length) {
    const std::string& token = tokens[id];
    if (token.size() < 2) continue;
    if (token.size() > 2 && !has_byte_pairs) {
      tables.update_byte_pairs();
      has_byte_pairs = true;
    }
    symbols.resize(token.size());
    const uint32_t* end = merge_piece(tables, token.data(), token.size(), symbols.data(), scratch);
    if (end != symbols.data() + 2) continue;
    merges.push_back({symbols[0], symbols[1], id});
    tables.add_ranked(merges.back());
  }
  std::sort(merges.begin(), merges.end(),
            [](const Merge& a, const Merge& b) { return a.product < b.product; });
  return merges;
}

}  // namespace ingot::data
