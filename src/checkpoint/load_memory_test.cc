// What a load of some boxes of a large checkpoint takes besides the memory that it fills.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_testing.h"

namespace ingot::checkpoint {
namespace {

using tensor::DType;
using tensor::Shape;

constexpr int64_t kRows = 4096, kColumns = 8192, kMatrices = 2;  // of 128 MiB each
constexpr int64_t kMostExtraBytes = int64_t{64} << 20;

// The most memory that this process ever had, files that it maps included.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    int64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes << 10;
  }
  return 0;
}

std::string name_of(int64_t matrix) { return "h." + std::to_string(matrix) + ".weight"; }

// In a child, whose peak is its own: exits with 0 where all is read and the extra memory is within bounds.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A rank's eighth of every matrix, by columns or by rows.
int read_eighths(const Checkpoint& checkpoint, bool columns) {
  const Shape shape = columns ? Shape{kRows, kColumns / 8} : Shape{kRows / 8, kColumns};
  std::vector<std::vector<float>> memory;
  std::vector<NamedTensor> wanted;
  for (int64_t i = 0; i < kMatrices; ++i) {
    memory.emplace_back(static_cast<size_t>(shape.elements()), 1.0F);  // touched
    wanted.push_back(
        {name_of(i), {memory.back().data(), DType::kF32, shape}, Part{{0, 0}, {kRows, kColumns}}});
    wanted.back().part->offset[columns ? 1 : 0] = columns ? kColumns / 2 : kRows / 2;
  }
  const int64_t before = peak_bytes();
  if (!checkpoint.read_some("model", wanted)) return 2;
  const int64_t extra = peak_bytes() - before;
  if (memory[1][5] != 7.0F || memory[1].back() != 7.0F) return 3;
  std::fprintf(stderr, "  %s: %.1f MiB besides what it fills\n", columns ? "columns" : "rows",
               static_cast<double>(extra) / (1 << 20));
  return extra < kMostExtraBytes ? 0 : 4;
}

TEST(LoadMemory, ALoadOfAnotherLayoutKeepsNoneOfWhatItReads) {
  const TestFolder scratch;
  const int saved = in_child([&] {
    std::vector<float> values(static_cast<size_t>(kRows * kColumns), 7.0F);
    std::vector<TensorGroup> groups = {{"model", {}}};
    for (int64_t i = 0; i < kMatrices; ++i)
      groups[0].tensors.push_back({name_of(i), {values.data(), DType::kF32, {kRows, kColumns}}, {}});
    return save(scratch.checkpoints(), groups, record_of(1), {}) ? 0 : 1;
  });
  ASSERT_EQ(saved, 0) << "no room for 256 MiB";
  auto opened = Checkpoint::open(scratch.checkpoints() + "/" + step_folder(1));
  ASSERT_TRUE(opened) << opened.error().message;
  for (const bool columns : {false, true})
    EXPECT_EQ(in_child([&] { return read_eighths(*opened, columns); }), 0) << columns;
  EXPECT_EQ(in_child([&] {
              const int64_t before = peak_bytes();
              if (!opened->verify()) return 2;
              return peak_bytes() - before < kMostExtraBytes ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace ingot::checkpoint
