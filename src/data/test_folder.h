#pragma once
// For tests of the data layer: a folder that goes away, files in it, and small streams of tokens.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace ingot::data {

class TestFolder {
 public:
  TestFolder() {
    static std::atomic<int> serial{0};
    path_ = (std::filesystem::temp_directory_path() /
             ("ingot-data-test-" + std::to_string(::getpid()) + "-" + std::to_string(serial.fetch_add(1))))
                .string();
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string at(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string path = at(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

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
