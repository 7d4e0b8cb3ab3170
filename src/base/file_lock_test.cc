#include "base/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace ingot {
namespace {

TEST(FileLock, ASecondHolderIsRefusedUntilTheFirstLetsGo) {
  const std::string path = (std::filesystem::temp_directory_path() / "ingot-file-lock-test").string();
  {
    const auto first = FileLock::take(path);
    ASSERT_TRUE(first) << first.error().message;
    const auto second = FileLock::take(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  }
  EXPECT_TRUE(FileLock::take(path));
  std::filesystem::remove(path);
  EXPECT_FALSE(FileLock::take("/no/such/folder/lock"));
}

}  // namespace
}  // namespace ingot
