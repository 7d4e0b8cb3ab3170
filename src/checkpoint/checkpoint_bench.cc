// How fast a checkpoint is saved and verified, beside plain writes and a plain hash of the same bytes in the
// same run.
//   checkpoint_bench [--check] [--json FILE] [--folder DIR]
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/bench_report.h"
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

Result<int> measure(BenchReport& report, const std::string& folder) {
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
    SaveReport done;
    saved.push_back(seconds_of([&] { done = must(save(folder, groups, record, {.keep_last = 1})); }));
    verified.push_back(seconds_of([&] {
      Checkpoint opened = must(Checkpoint::open(done.path));
      INGOT_CHECK(opened.verify().has_value(), "{} does not verify", done.path);
    }));
    hashed.push_back(seconds_of([&] { INGOT_CHECK(hash64(all) != 0, "a hash of zero"); }));
  }
  const double gigabytes = static_cast<double>(memory.bytes()) * 1e-9;
  report.add("checkpoint save, with fsync", gigabytes / median(saved), "GB/s");
  report.add("plain write, with fsync", gigabytes / median(plain), "GB/s");
  report.add("checkpoint verify", gigabytes / median(verified), "GB/s");
  report.add("plain hash", gigabytes / median(hashed), "GB/s");
  report.add("checkpoint save", median(plain) / median(saved), "of a plain write", kLeastShareOfPlainWrite);
  return report.finish();
}

Result<int> run(BenchReport& report) {
  const auto& words = report.arguments();
  std::string folder = std::filesystem::temp_directory_path() / "ingot-checkpoint-bench";
  if (words.size() == 2 && words[0] == "--folder") folder = words[1];
  INGOT_TRY_VOID(make_directories(folder));
  auto code = measure(report, folder);
  INGOT_TRY_VOID(remove_all(folder));
  return code;
}

}  // namespace
}  // namespace ingot::checkpoint

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, ingot::checkpoint::run); }
