#include "data/loader.h"

#include <thread>

#include "data/test_folder.h"

namespace ingot::data {
namespace {

constexpr int64_t kVocab = 300;
constexpr int64_t kSeqLen = 11;

class LoaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_shard((folder_ / "s.tok"), counted_tokens(20000, kVocab), {0, 500, 9000}, kVocab);
    open();
  }
  void open() {
    auto stream = TokenStream::open({(folder_ / "s.tok")});
    ASSERT_TRUE(stream) << stream.error().message;
    stream_ = std::move(stream).value();
  }
  Sampler order() const { return Sampler::shuffled(stream_.samples(kSeqLen), 77); }

  StepBuffer buffer(const StepLayout& layout, int64_t replica = 0) {
    StepBuffer views;
    for (int64_t i = 0; i < layout.micro_batches(replica); ++i) {
      memory_.push_back(std::make_unique<BatchMemory>(layout.micro_batch, kSeqLen));
      views.push_back(memory_.back()->view());
    }
    return views;
  }

  // Tokens and sample indices of steps [first, end), as one list.
  std::vector<int64_t> read_steps(LoaderOptions options, int64_t end) {
    std::array<StepBuffer, 2> buffers = {buffer(options.layout), buffer(options.layout)};
    auto loader = Loader::start(stream_, order(), options, buffers[0], buffers[1]);
    EXPECT_TRUE(loader) << loader.error().message;
    std::vector<int64_t> all;
    for (int64_t step = options.first_step; step < end; ++step) {
      const auto loaded = (*loader)->acquire(step, 10);
      EXPECT_TRUE(loaded) << loaded.error().message;
      if (!loaded) break;
      for (const BatchView& batch : buffers[static_cast<size_t>(loaded->buffer)]) {
        all.insert(all.end(), batch.sample.begin(), batch.sample.end());
        all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
        all.insert(all.end(), batch.doc_start.begin(), batch.doc_start.end());
      }
      (*loader)->release(step);
    }
    return all;
  }

  TestFolder folder_;
  TokenStream stream_;
  std::vector<std::unique_ptr<BatchMemory>> memory_;
};

TEST_F(LoaderTest, ResumedRunReadsTheSameSamples) {
  LoaderOptions options;
  options.slice = {kSeqLen};
  options.layout = {.global_batch = 6, .micro_batch = 2, .replicas = 1};
  options.document_mask = true;
  const std::vector<int64_t> whole = read_steps(options, 400);  // more than an epoch of 1,818 samples
  for (const int64_t at : {1, 2, 7, 200, 399}) {
    std::vector<int64_t> parts = read_steps(options, at);
    LoaderOptions rest = options;
    rest.first_step = at;
    const std::vector<int64_t> tail = read_steps(rest, 400);
    parts.insert(parts.end(), tail.begin(), tail.end());
    EXPECT_EQ(parts, whole) << at;
  }
}

TEST_F(LoaderTest, ReplicasTogetherReadWhatOneReads) {
  LoaderOptions one;
  one.slice = {kSeqLen};
  one.layout = {.global_batch = 12, .micro_batch = 2, .replicas = 1};
  const std::vector<int64_t> whole = read_steps(one, 1);
  std::vector<int64_t> together;
  for (int64_t replica = 0; replica < 3; ++replica) {
    LoaderOptions part = one;
    part.layout.replicas = 3;
    part.replica = replica;
    const std::vector<int64_t> own = read_steps(part, 1);
    together.insert(together.end(), own.begin(), own.end());
  }
  EXPECT_EQ(together, whole);
}

TEST_F(LoaderTest, FillsAheadAndKeepsABufferUntilReleased) {
  LoaderOptions options;
  options.slice = {kSeqLen};
  options.layout = {.global_batch = 2, .micro_batch = 2, .replicas = 1};
  std::array<StepBuffer, 2> buffers = {buffer(options.layout), buffer(options.layout)};
  auto loader = Loader::start(stream_, order(), options, buffers[0], buffers[1]);
  ASSERT_TRUE(loader);
  ASSERT_TRUE((*loader)->acquire(0, 10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(buffers[0][0].sample[0], 0);
  const auto second = (*loader)->acquire(1, 10);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->buffer, 1);
  EXPECT_EQ(second->stall_ns, 0) << "step 1 was filled while step 0 was read";
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(buffers[0][0].sample[0], 0) << "step 2 must wait for the release of step 0";
  (*loader)->release(0);
  ASSERT_TRUE((*loader)->acquire(2, 10));
  EXPECT_EQ(buffers[0][0].sample[0], 4);
  EXPECT_EQ(buffers[1][0].sample[0], 2);
}

TEST_F(LoaderTest, EndsAfterTheLastStep) {
  LoaderOptions options;
  options.slice = {kSeqLen};
  options.layout = {.global_batch = 1, .micro_batch = 1, .replicas = 1};
  options.first_step = 3;
  options.end_step = 6;
  EXPECT_EQ(read_steps(options, 6).size(), 3u * (1 + 2 * kSeqLen));
}

TEST_F(LoaderTest, DamageIsAnErrorOrACountedEvent) {
  std::string bytes = slurp((folder_ / "s.tok"));
  bytes[4096 + 3 * 4096 + 7] ^= 1;  // block 3 of 10
  folder_.write("s.tok", bytes);
  open();
  LoaderOptions options;
  options.slice = {kSeqLen};
  options.layout = {.global_batch = 4, .micro_batch = 4, .replicas = 1};
  std::array<StepBuffer, 2> buffers = {buffer(options.layout), buffer(options.layout)};
  {
    auto loader = Loader::start(stream_, order(), options, buffers[0], buffers[1]);
    ASSERT_TRUE(loader);
    int64_t step = 0;
    std::string message;
    for (; step < 200 && message.empty(); ++step) {
      const auto loaded = (*loader)->acquire(step, 10);
      if (!loaded) {
        message = loaded.error().message;
        EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt);
      } else {
        (*loader)->release(step);
      }
    }
    EXPECT_NE(message.find("checksum of block 3 is wrong"), std::string::npos) << message;
  }
  EventLog events;
  std::vector<Event> seen;
  events.add_sink([&seen](const Event& event) { seen.push_back(event); });
  options.on_corrupt = OnCorrupt::kSkip;
  options.events = &events;
  std::vector<int64_t> first;
  for (int again = 0; again < 2; ++again) {
    seen.clear();
    const std::vector<int64_t> all = read_steps(options, 400);
    if (again == 0) first = all;
    EXPECT_EQ(all, first);
    ASSERT_FALSE(seen.empty());
    EXPECT_EQ(seen[0].kind, "data_substituted");
  }
}

TEST_F(LoaderTest, TooLittleDataIsASentence) {
  write_shard((folder_ / "s.tok"), counted_tokens(kSeqLen, kVocab), {0}, kVocab);
  open();
  LoaderOptions options;
  options.slice = {kSeqLen};
  const auto loader =
      Loader::start(stream_, Sampler::sequential(1), options, buffer(options.layout), buffer(options.layout));
  ASSERT_FALSE(loader);
  EXPECT_NE(loader.error().message.find("The data has 11 tokens"), std::string::npos)
      << loader.error().message;
}

}  // namespace
}  // namespace ingot::data
