// What data costs a training step: filling batches from shards, beside plainly writing as many bytes in the
// same run, and how long steps wait for the loader's thread.
//   loader_bench [--check] [--json FILE]
#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/bench_report.h"
#include "base/clock.h"
#include "base/units.h"
#include "data/loader.h"
#include "data/token_shard.h"

namespace ingot::data {
namespace {

constexpr int64_t kTokens = int64_t{32} << 20;
constexpr int64_t kVocab = 50257;
constexpr int64_t kSeqLen = 1024;
constexpr int64_t kMicroBatch = 16;
constexpr int kRounds = 7;
constexpr int kBuffers = 48;  // a step's input is cold when it is filled: together well beyond the caches
// A plain copy of five fields in wide vectors is far from what gathering ids and marking documents can reach;
// the bar is half of what was measured, to catch a lost vector loop. What a run feels is the stall.
constexpr double kLeastShareOfPlainCopy = 0.07;
constexpr double kGreatestStallShare = 0.01;

template <class T>
T must(Result<T> result) {
  INGOT_CHECK(result.has_value(), "{}", result.error().message);
  return std::move(result).value();
}

void write_tokens(const std::string& path) {
  TokenShardWriter writer = must(TokenShardWriter::create(path, {.vocab_size = kVocab}));
  std::vector<int32_t> ids(size_t{1} << 16);
  uint64_t word = 1;
  for (int64_t at = 0; at < kTokens; at += static_cast<int64_t>(ids.size())) {
    for (int32_t& id : ids) {
      word = word * 6364136223846793005u + 1442695040888963407u;
      id = static_cast<int32_t>((word >> 33) % kVocab);
    }
    writer.begin_document();
    INGOT_CHECK(writer.append(ids).has_value(), "cannot write {}", path);
  }
  (void)must(writer.finish());
}

double fill_tokens_per_second(const TokenStream& stream, const std::vector<BatchMemory>& buffers) {
  BatchFiller filler(stream, Sampler::shuffled(stream.samples(kSeqLen), 1), {kSeqLen});
  std::vector<double> rates;
  std::vector<int32_t> all(size_t{1} << 20);
  // Checksums and page faults of the first touch come once in a run.
  for (int64_t at = 0; at < kTokens; at += static_cast<int64_t>(all.size())) {
    INGOT_CHECK(stream.read(at, all).has_value(), "tokens cannot be read");
  }
  constexpr int64_t kBatches = 200;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin = monotonic_ns();
    for (int64_t i = 0; i < kBatches; ++i) {
      BatchRequest request;
      request.first_sample = (round * kBatches + i) * kMicroBatch;
      request.document_mask = true;
      INGOT_CHECK(filler.fill(request, buffers[static_cast<size_t>(i % kBuffers)].view()).has_value(),
                  "a batch could not be filled");
    }
    rates.push_back(static_cast<double>(kBatches * kMicroBatch * kSeqLen) * 1e9 /
                    static_cast<double>(monotonic_ns() - begin));
  }
  return median(rates);
}

double plain_tokens_per_second(const std::vector<BatchMemory>& buffers) {
  std::vector<double> rates;
  constexpr int kBatches = 200;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin = monotonic_ns();
    for (int i = 0; i < kBatches; ++i) {
      const BatchView& batch = buffers[static_cast<size_t>(i % kBuffers)].view();
      const BatchView& source = buffers[static_cast<size_t>((i + 1) % kBuffers)].view();
      std::copy(source.tokens.begin(), source.tokens.end(), batch.tokens.begin());
      std::copy(source.labels.begin(), source.labels.end(), batch.labels.begin());
      std::copy(source.position.begin(), source.position.end(), batch.position.begin());
      std::copy(source.doc_start.begin(), source.doc_start.end(), batch.doc_start.begin());
      std::copy(source.loss_mask.begin(), source.loss_mask.end(), batch.loss_mask.begin());
    }
    rates.push_back(static_cast<double>(kBatches) * kMicroBatch * kSeqLen * 1e9 /
                    static_cast<double>(monotonic_ns() - begin));
  }
  return median(rates);
}

// Share of the time that steps of 5 ms wait for data.
double stall_share(const TokenStream& stream, const BatchMemory& first, const BatchMemory& second) {
  LoaderOptions options;
  options.slice = {kSeqLen};
  options.layout = {.global_batch = kMicroBatch, .micro_batch = kMicroBatch, .replicas = 1};
  auto loader = must(Loader::start(stream, Sampler::shuffled(stream.samples(kSeqLen), 1), options,
                                   {first.view()}, {second.view()}));
  constexpr int64_t kSteps = 100;
  (void)must(loader->acquire(0, 10));  // nothing can be ready before the first
  loader->release(0);
  const int64_t stall_before = loader->stall_ns();
  const int64_t begin = monotonic_ns();
  for (int64_t step = 1; step <= kSteps; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    (void)must(loader->acquire(step, 10));
    loader->release(step);
  }
  return static_cast<double>(loader->stall_ns() - stall_before) / static_cast<double>(monotonic_ns() - begin);
}

double permutation_ns(int64_t samples) {
  const KeyedPermutation permutation(samples, 3, 0);
  constexpr int64_t kCalls = 1'000'000;
  int64_t sum = 0;
  const int64_t begin = monotonic_ns();
  for (int64_t i = 0; i < kCalls; ++i) sum += permutation(i * (samples / kCalls));
  const double ns = static_cast<double>(monotonic_ns() - begin) / kCalls;
  INGOT_CHECK(sum > 0, "a permutation of {} gives zeros", samples);
  return ns;
}

Result<int> run(BenchReport& report) {
  const std::string path = (std::filesystem::temp_directory_path() / "ingot-loader-bench.tok").string();
  write_tokens(path);
  const TokenStream stream = must(TokenStream::open({path}));
  std::filesystem::remove(path);
  std::vector<BatchMemory> buffers;
  for (int i = 0; i < kBuffers; ++i) buffers.emplace_back(kMicroBatch, kSeqLen);
  const double plain = plain_tokens_per_second(buffers);
  const double filled = fill_tokens_per_second(stream, buffers);
  const double stall = stall_share(stream, buffers[0], buffers[1]);
  report.add("loader batches, 16 x 1024", filled * 1e-6, "M tokens/s");
  report.add("loader batches", filled / plain, "of plain copies", kLeastShareOfPlainCopy);
  report.add("loader stall in steps of 5 ms", stall, "of the time", kGreatestStallShare, Better::kLower);
  for (const int64_t samples : {int64_t{1'000'000}, int64_t{1'000'000'000}, int64_t{1'000'000'000'000}}) {
    report.add(fmt::format("order of {} samples", format_integer(samples)), permutation_ns(samples),
               "ns a sample");
  }
  return report.finish();
}

}  // namespace
}  // namespace ingot::data

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, ingot::data::run); }
