// How fast a checkpoint is saved and verified, beside plain writes and a plain hash of the same bytes in the
// same run.
//   checkpoint_bench [--check] [--folder DIR]
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/checkpoint.h"
#include "tensor/tensor.h"

namespace ingot::checkpoint {
namespace {

constexpr int64_t kTensorBytes = int64_t{8} << 20;
constexpr int kTensorsEach = 8;  // of parameters, and of each moment: 192 MiB in all
constexpr int kRounds = 5;
// A save is the plain write of the same bytes and two hashes on the way; a disk that is slow hides the
// hashes.
constexpr double kLeastShareOfPlainWrite = 0.5;

double seconds_of(const std::function<void()>& work) {
  const int64_t begin = monotonic_ns();
  work();
  return static_cast<double>(monotonic_ns() - begin) * 1e-9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<TensorGroup> groups_over(std::byte* memory) {
  std::vector<TensorGroup> groups = {{"model", {}}, {"optimizer", {}}};
  for (int i = 0; i < 3 * kTensorsEach; ++i) {
    const tensor::TensorView view{
        memory + i * kTensorBytes, tensor::DType::kF32, {2048, kTensorBytes / 4 / 2048}};
    groups[i < kTensorsEach ? 0 : 1].tensors.push_back({fmt::format("tensor.{:02}", i), view});
  }
  return groups;
}

template <class T>
T must(Result<T> result) {
  INGOT_CHECK(result.has_value(), "{}", result.error().message);
  return std::move(result).value();
}

void plain_write(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file = must(AtomicFile::create(path));
  for (size_t at = 0; at < bytes.size(); at += size_t{1} << 20) {
    INGOT_CHECK(file.write(bytes.subspan(at, size_t{1} << 20)).has_value(), "cannot write {}", path);
  }
  INGOT_CHECK(file.commit().has_value(), "cannot write {}", path);
}

int run(bool check, const std::string& folder) {
  tensor::Buffer memory = must(tensor::Buffer::allocate(3 * kTensorsEach * kTensorBytes));
  uint64_t word = 1;
  for (int64_t at = 0; at < memory.bytes(); at += 8) {
    word = word * 6364136223846793005U + 1442695040888963407U;
    std::memcpy(memory.data() + at, &word, 8);
  }
  const std::span<const std::byte> all(memory.data(), static_cast<size_t>(memory.bytes()));
  const auto groups = groups_over(memory.data());
  std::vector<double> plain, saved, verified, hashed;
  for (int round = 0; round < kRounds; ++round) {
    plain.push_back(seconds_of([&] { plain_write(folder + "/plain", all); }));
    StateRecord record;
    record.step = round;
    SaveReport report;
    saved.push_back(seconds_of([&] { report = must(save(folder, groups, record, {.keep_last = 1})); }));
    verified.push_back(seconds_of([&] {
      Checkpoint opened = must(Checkpoint::open(report.path));
      INGOT_CHECK(opened.verify().has_value(), "{} does not verify", report.path);
    }));
    hashed.push_back(seconds_of([&] { INGOT_CHECK(hash64(all) != 0, "a hash of zero"); }));
  }
  const double gigabytes = static_cast<double>(memory.bytes()) * 1e-9;
  const double share = median(plain) / median(saved);
  fmt::print("checkpoint.save            {:7.2f} GB/s  (with fsync)\n", gigabytes / median(saved));
  fmt::print("plain write                {:7.2f} GB/s  (with fsync)\n", gigabytes / median(plain));
  fmt::print("checkpoint.verify          {:7.2f} GB/s\n", gigabytes / median(verified));
  fmt::print("plain hash                 {:7.2f} GB/s\n", gigabytes / median(hashed));
  fmt::print("save / plain write         {:7.2f}       bar {:.2f}\n", share, kLeastShareOfPlainWrite);
  if (!check || share >= kLeastShareOfPlainWrite) return 0;
  fmt::print(stderr, "a save reaches {:.2f} of a plain write; the bar is {:.2f}\n", share,
             kLeastShareOfPlainWrite);
  return 1;
}

}  // namespace
}  // namespace ingot::checkpoint

int main(int argc, char** argv) {
  bool check = false;
  std::string folder = std::filesystem::temp_directory_path() / "ingot-checkpoint-bench";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--check") check = true;
    if (argument == "--folder" && i + 1 < argc) folder = argv[++i];
  }
  std::filesystem::create_directories(folder);
  const int code = ingot::checkpoint::run(check, folder);
  std::filesystem::remove_all(folder);
  return code;
}
