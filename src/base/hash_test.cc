#include "base/hash.h"

#include <gtest/gtest.h>

#include <vector>

namespace ingot {
namespace {

TEST(Hash, KnownAnswers) {
  // XXH3-64 of the empty input, seed 0, from the xxHash specification.
  EXPECT_EQ(hash64(std::string_view("")), 0x2d06800538d394c2ULL);
  EXPECT_EQ(hash_hex(hash64(std::string_view(""))), "2d06800538d394c2");
  EXPECT_EQ(hash_hex(7), "0000000000000007");
}

TEST(Hash, SeedAndOrderMatter) {
  EXPECT_NE(hash64(std::string_view("abc"), 0), hash64(std::string_view("abc"), 1));
  EXPECT_NE(hash_combine(1, 2), hash_combine(2, 1));
  EXPECT_EQ(hash_combine(1, 2), hash_combine(1, 2));
}

TEST(Hash, PiecesEqualTheWhole) {
  std::vector<std::byte> data(100'003);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 131 + (i >> 7));
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{255}, size_t{4096}, data.size()}) {
    Hasher hasher(42);
    for (size_t at = 0; at < data.size(); at += piece) {
      hasher.update(std::span<const std::byte>(data).subspan(at, std::min(piece, data.size() - at)));
    }
    EXPECT_EQ(hasher.digest(), hash64(std::span<const std::byte>(data), 42)) << piece;
  }
}

}  // namespace
}  // namespace ingot
