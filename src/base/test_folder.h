#pragma once
// A folder of a test that goes away with the object. Tests only.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ingot {

class TestFolder {
 public:
  explicit TestFolder(const std::filesystem::path& root = std::filesystem::temp_directory_path()) {
    static std::atomic<int> serial{0};
    const std::string name =
        "ingot-test-" + std::to_string(::getpid()) + "-" + std::to_string(serial.fetch_add(1));
    path_ = (root / name).string();
    std::filesystem::remove_all(path_);  // of an earlier process with the same number
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Writes a file, folders above it included, and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace ingot
