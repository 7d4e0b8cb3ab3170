#include "data/batch.h"

#include <algorithm>

#include "data/test_folder.h"

namespace ingot::data {
namespace {

constexpr int64_t kVocab = 300;

TokenStream stream_of(const TestFolder& folder, int64_t tokens, const std::vector<int64_t>& starts) {
  write_shard((folder / "s.tok"), counted_tokens(tokens, kVocab), starts, kVocab);
  auto stream = TokenStream::open({(folder / "s.tok")});
  EXPECT_TRUE(stream) << stream.error().message;
  return std::move(stream).value();
}

TEST(BatchFiller, FieldsAreThoseOfTheStepProgram) {
  const TestFolder folder;
  const TokenStream stream = stream_of(folder, 101, {0, 13, 14, 22, 100});
  constexpr int64_t kSeqLen = 7;
  ASSERT_EQ(stream.samples(kSeqLen), 14);
  BatchFiller filler(stream, Sampler::sequential(14), {kSeqLen});
  const BatchMemory memory(3, kSeqLen);
  const BatchView& batch = memory.view();
  ASSERT_TRUE(filler.fill({.first_sample = 1, .document_mask = true}, batch));
  const std::vector<int32_t> ids = counted_tokens(101, kVocab);
  for (int64_t r = 0; r < 3; ++r) {
    EXPECT_EQ(batch.sample[static_cast<size_t>(r)], 1 + r);
    for (int64_t t = 0; t < kSeqLen; ++t) {
      const size_t at = static_cast<size_t>(r * kSeqLen + t);
      const size_t token = static_cast<size_t>((1 + r) * kSeqLen + t);
      EXPECT_EQ(batch.tokens[at], ids[token]);
      EXPECT_EQ(batch.labels[at], ids[token + 1]);
      EXPECT_EQ(batch.loss_mask[at], 1.0f);
      EXPECT_EQ(batch.position[at], t);
    }
  }
  // Sample 1 is tokens 7 to 13, sample 2 is 14 to 20, sample 3 is 21 to 27.
  const auto starts = [&](int64_t row) {
    const auto field = batch.doc_start.subspan(static_cast<size_t>(row * kSeqLen), kSeqLen);
    return std::vector<int32_t>(field.begin(), field.end());
  };
  EXPECT_EQ(starts(0), (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 6}));
  EXPECT_EQ(starts(1), (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(starts(2), (std::vector<int32_t>{0, 1, 1, 1, 1, 1, 1}));
  ASSERT_TRUE(filler.fill({.first_sample = 1}, batch));
  EXPECT_TRUE(std::all_of(batch.doc_start.begin(), batch.doc_start.end(), [](int32_t s) { return s == 0; }));
}

TEST(BatchFiller, RowsBeyondTheEndAreMasked) {
  const TestFolder folder;
  const TokenStream stream = stream_of(folder, 50, {0});
  BatchFiller filler(stream, Sampler::sequential(stream.samples(7)), {7});
  const BatchMemory memory(4, 7);
  ASSERT_TRUE(filler.fill({.first_sample = 5, .rows = 2}, memory.view()));
  for (size_t i = 0; i < 28; ++i) EXPECT_EQ(memory.view().loss_mask[i], i < 14 ? 1.0f : 0.0f);
  EXPECT_EQ(memory.view().tokens[14], 0);
}

TEST(StepLayout, ReplicasAndMicroBatchesCoverTheGlobalBatchInOrder) {
  const StepLayout layout{.global_batch = 24, .micro_batch = 3, .replicas = 2};
  ASSERT_TRUE(layout.validate());
  EXPECT_EQ(layout.micro_batches(1), 4);
  int64_t next = 5 * 24;
  for (int64_t replica = 0; replica < 2; ++replica) {
    for (int64_t micro = 0; micro < 4; ++micro, next += 3) {
      EXPECT_EQ(layout.first_sample(5, replica, micro), next);
    }
  }
  EXPECT_FALSE((StepLayout{24, 5, 1}.validate()));
  EXPECT_FALSE((StepLayout{24, 8, 2}.validate()));
  EXPECT_FALSE((StepLayout{4, 8, 1}.validate()));
  EXPECT_FALSE((StepLayout{0, 1, 1}.validate()));
  EXPECT_FALSE((StepLayout{1 << 20, 1 << 20, int64_t{1} << 50}.validate()));
}

TEST(StepLayout, SharesOfReplicasAreBlocksInTurn) {
  const StepLayout layout{.global_batch = 24, .micro_batch = 3, .replicas = 3, .shares = {5, 1, 2}};
  ASSERT_TRUE(layout.validate());
  int64_t next = 24;
  for (int64_t replica = 0; replica < 3; ++replica) {
    for (int64_t micro = 0; micro < layout.micro_batches(replica); ++micro, next += 3)
      EXPECT_EQ(layout.first_sample(1, replica, micro), next);
  }
  EXPECT_EQ(next, 48);
  EXPECT_FALSE((StepLayout{24, 3, 3, {5, 2, 2}}.validate()));
  EXPECT_FALSE((StepLayout{24, 3, 3, {5, 3}}.validate()));
  EXPECT_FALSE((StepLayout{24, 3, 3, {8, 0, 0}}.validate()));
}

// The ranks of a context-parallel group read columns of the same samples.
TEST(BatchFiller, ColumnsAreThoseOfTheWholeSample) {
  const TestFolder folder;
  const TokenStream stream = stream_of(folder, 1000, {0, 37, 41});
  const Sampler order = Sampler::sequential(stream.samples(12));
  const BatchMemory whole(2, 12);
  const BatchRequest request{.first_sample = 3, .rows = 2, .document_mask = true};
  ASSERT_TRUE(BatchFiller(stream, order, {12}).fill(request, whole.view()));
  const std::vector<int64_t> columns = {0, 1, 2, 9, 10, 11};
  const BatchMemory part(2, 6);
  ASSERT_TRUE(BatchFiller(stream, order, {12, columns}).fill(request, part.view()));
  for (size_t row = 0; row < 2; ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const size_t own = row * 6 + i, there = row * 12 + static_cast<size_t>(columns[i]);
      EXPECT_EQ(part.view().tokens[own], whole.view().tokens[there]);
      EXPECT_EQ(part.view().labels[own], whole.view().labels[there]);
      EXPECT_EQ(part.view().position[own], columns[i]);
      EXPECT_EQ(part.view().doc_start[own], whole.view().doc_start[there]);
    }
  }
  EXPECT_NE(whole.view().doc_start[11], 0) << "a document begins inside";
}

TEST(BatchFiller, FieldsThatNobodyReadsMayBeEmpty) {
  const TestFolder folder;
  const TokenStream stream = stream_of(folder, 100, {0});
  const BatchMemory memory(1, 9);
  BatchView view = memory.view();
  view.tokens = {};
  view.loss_mask = {};
  BatchFiller filler(stream, Sampler::sequential(stream.samples(9)), {9});
  ASSERT_TRUE(filler.fill({.first_sample = 1}, view));
  EXPECT_EQ(view.labels[0], data::counted_tokens(100, kVocab)[10]);
}

// The samples of a step as sets of (global index, tokens) are the same on any layout.
TEST(StepLayout, SamplesDoNotDependOnTheLayout) {
  const TestFolder folder;
  const TokenStream stream = stream_of(folder, 1000, {0});
  constexpr int64_t kSeqLen = 9;
  const Sampler order = Sampler::shuffled(stream.samples(kSeqLen), 3);
  std::vector<int32_t> expected;
  for (const auto& [micro_batch, replicas] :
       std::vector<std::pair<int64_t, int64_t>>{{12, 1}, {3, 1}, {2, 3}, {1, 12}}) {
    const StepLayout layout{.global_batch = 12, .micro_batch = micro_batch, .replicas = replicas};
    BatchFiller filler(stream, order, {kSeqLen});
    const BatchMemory memory(micro_batch, kSeqLen);
    std::vector<int32_t> tokens;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      for (int64_t micro = 0; micro < layout.micro_batches(replica); ++micro) {
        ASSERT_TRUE(filler.fill({.first_sample = layout.first_sample(20, replica, micro)}, memory.view()));
        tokens.insert(tokens.end(), memory.view().tokens.begin(), memory.view().tokens.end());
      }
    }
    if (expected.empty()) expected = tokens;
    EXPECT_EQ(tokens, expected);
  }
}

TEST(BatchFiller, DamagedBlocksFailOrAreSubstitutedTheSameWayEveryTime) {
  const TestFolder folder;
  write_shard((folder / "s.tok"), counted_tokens(20000, kVocab), {0}, kVocab);
  std::string bytes = slurp((folder / "s.tok"));
  bytes[4096 + 4096 + 50] ^= 4;  // block 1: tokens 2,048 to 4,095
  folder.write("s.tok", bytes);
  auto stream = TokenStream::open({(folder / "s.tok")});
  ASSERT_TRUE(stream);
  constexpr int64_t kSeqLen = 100;
  BatchFiller filler(*stream, Sampler::sequential(stream->samples(kSeqLen)), {kSeqLen});
  const BatchMemory memory(2, kSeqLen);
  ASSERT_TRUE(filler.fill({.first_sample = 10}, memory.view()));
  const auto failed = filler.fill({.first_sample = 25}, memory.view());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kCorrupt);
  ASSERT_TRUE(filler.fill({.first_sample = 39, .on_corrupt = OnCorrupt::kSkip}, memory.view()));
  // Samples 39 and 40 touch block 1 (tokens 3,900 to 4,000 and 4,000 to 4,100); 41 begins at 4,100.
  ASSERT_EQ(filler.substitutions().size(), 2u);
  EXPECT_EQ(filler.substitutions()[0].damaged, 39);
  EXPECT_EQ(filler.substitutions()[0].substitute, 41);
  EXPECT_EQ(filler.substitutions()[1].substitute, 41);
  EXPECT_EQ(memory.view().tokens[0], counted_tokens(20000, kVocab)[4100]);
  EXPECT_EQ(memory.view().sample[0], 39);
}

}  // namespace
}  // namespace ingot::data
