#pragma once
// For tests of the data layer: small streams of tokens in folders that go away.

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/test_folder.h"
#include "data/dataset.h"

namespace ingot::data {

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Token i is (i * 7 + 3) % vocab; documents start where `starts` says.
inline std::vector<int32_t> counted_tokens(int64_t tokens, int64_t vocab) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((static_cast<int64_t>(i) * 7 + 3) % vocab);
  }
  return ids;
}

inline void write_shard(const std::string& path, const std::vector<int32_t>& ids,
                        const std::vector<int64_t>& starts, int64_t vocab, int64_t block_bytes = 4096) {
  auto writer = TokenShardWriter::create(path, {vocab, 0xABCDEF, block_bytes});
  ASSERT_TRUE(writer) << writer.error().message;
  size_t from = 0;
  for (size_t d = 0; d <= starts.size(); ++d) {
    const size_t to = d < starts.size() ? static_cast<size_t>(starts[d]) : ids.size();
    ASSERT_TRUE(writer->append(std::span(ids).subspan(from, to - from)));
    if (d < starts.size()) writer->begin_document();
    from = to;
  }
  writer->add_text_bytes(static_cast<int64_t>(ids.size()) * 3);
  const auto hash = writer->finish();
  ASSERT_TRUE(hash) << hash.error().message;
}

}  // namespace ingot::data
