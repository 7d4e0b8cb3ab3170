#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "checkpoint/checkpoint_testing.h"

namespace ingot::checkpoint {
namespace {

using tensor::Shape;

void flip_bit(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  char byte = 0;
  file.get(byte);
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 0x10));
  ASSERT_TRUE(file.good());
}

std::string whole_error(const std::string& path) {
  auto opened = Checkpoint::open(path);
  if (!opened) return opened.error().message;
  const auto verified = opened->verify();
  return verified ? "" : verified.error().message;
}

TEST(Checkpoint, ComesBackToTheBit) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model saved(1);
  const SaveReport report = save_or_die(folder, saved, 1000);
  EXPECT_EQ(report.path, folder + "/step-00001000");
  EXPECT_EQ(names_in(report.path), (std::vector<std::string>{"manifest.json", "model.safetensors",
                                                             "optimizer.safetensors", "state.json"}));
  int64_t on_disk = 0;
  for (const auto& name : names_in(report.path)) on_disk += *file_bytes(report.path + "/" + name);
  EXPECT_EQ(report.bytes, on_disk);
  EXPECT_GE(checkpoint_bytes(saved.groups(), record_of(1000)), on_disk);
  EXPECT_LE(checkpoint_bytes(saved.groups(), record_of(1000)), on_disk + 16384);

  auto opened = Checkpoint::open(report.path);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ(opened->bytes(), on_disk);
  EXPECT_TRUE(opened->verify().has_value());
  EXPECT_EQ(opened->groups(), (std::vector<std::string>{"model", "optimizer"}));
  Model loaded(2);
  ASSERT_FALSE(loaded == saved);
  ASSERT_TRUE(opened->read("model", loaded.model()).has_value());
  ASSERT_TRUE(opened->read("optimizer", loaded.optimizer()).has_value());
  EXPECT_TRUE(loaded == saved);
  auto listed = opened->tensors("model");
  ASSERT_TRUE(listed.has_value());
  ASSERT_EQ(listed->size(), 3U);
  EXPECT_EQ((*listed)[2].name, "h.0.mlp.weight");
  EXPECT_EQ((*listed)[2].view.shape, (Shape{300, 501}));

  const StateRecord expected = record_of(1000);
  const StateRecord& state = opened->state();
  EXPECT_EQ(state.step, 1000);
  EXPECT_EQ(state.tokens, expected.tokens);
  EXPECT_EQ(state.samples, expected.samples);
  EXPECT_EQ(state.seed, expected.seed);
  EXPECT_EQ(state.data_fingerprint, expected.data_fingerprint);
  EXPECT_EQ(state.tokenizer_fingerprint, expected.tokenizer_fingerprint);
  EXPECT_EQ(state.model, expected.model);
  EXPECT_EQ(state.versions, expected.versions);
  EXPECT_EQ(state.configuration, expected.configuration);
  EXPECT_EQ(state.counters, expected.counters);
  EXPECT_EQ(state.best_validation_loss, expected.best_validation_loss);
  EXPECT_EQ(state.best_validation_step, 999);
  ASSERT_EQ(state.scalars.size(), expected.scalars.size());
  for (size_t i = 0; i < state.scalars.size(); ++i) {
    EXPECT_EQ(state.scalars[i].first, expected.scalars[i].first);
    EXPECT_EQ(std::memcmp(&state.scalars[i].second, &expected.scalars[i].second, sizeof(double)), 0)
        << state.scalars[i].first;
  }
}

TEST(Checkpoint, TheSameStateMakesTheSameFiles) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  save_or_die(folder + "/a", model, 7);
  save_or_die(folder + "/b", model, 7);
  for (const auto& name : names_in(folder + "/a/step-00000007")) {
    EXPECT_EQ(*read_file(folder + "/a/step-00000007/" + name),
              *read_file(folder + "/b/step-00000007/" + name))
        << name;
  }
}

TEST(Checkpoint, KeepsTheLastAndTheNamedOnes) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  for (int64_t step : {10, 20, 30}) save_or_die(folder, model, step, {.keep_last = 2, .keep_steps = {10}});
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"step-00000010", "step-00000020", "step-00000030"}));
  const SaveReport report = save_or_die(folder, model, 40, {.keep_last = 2, .keep_steps = {10}});
  EXPECT_EQ(report.removed, (std::vector<std::string>{"step-00000020"}));
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"step-00000010", "step-00000030", "step-00000040"}));
  save_or_die(folder, model, 50, {.keep_last = 1});
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"step-00000050"}));
}

TEST(Checkpoint, AnotherHistoryIsSetAsideNotRemoved) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  for (int64_t step : {10, 20, 30}) save_or_die(folder, model, step);
  const SaveReport report = save_or_die(folder, model, 15, {.keep_last = 1});
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{"step-00000015", "step-00000020.aside", "step-00000030.aside"}));
  ASSERT_EQ(report.notes.size(), 2U);
  EXPECT_TRUE(has(report.notes[0], "renamed step-00000030.aside"));
  EXPECT_EQ((*latest(folder))->step, 15);
}

TEST(Checkpoint, TheSameStepIsReplaced) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model first(1), second(2), loaded(3);
  save_or_die(folder, first, 10);
  save_or_die(folder, second, 10);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"step-00000010"}));
  auto opened = Checkpoint::open(folder + "/step-00000010");
  ASSERT_TRUE(opened.has_value());
  ASSERT_TRUE(opened->read("model", loaded.model()).has_value());
  ASSERT_TRUE(opened->read("optimizer", loaded.optimizer()).has_value());
  EXPECT_TRUE(loaded == second);
}

TEST(Checkpoint, NoFolderAndAnEmptyOneHaveNone) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  ASSERT_TRUE(latest(folder).has_value());
  EXPECT_FALSE(latest(folder)->has_value());
  ASSERT_TRUE(make_directories(folder).has_value());
  EXPECT_FALSE(latest(folder)->has_value());
  EXPECT_TRUE(saved_steps(folder)->empty());
}

TEST(Checkpoint, NamesThatAreNotOursAreLeftAlone) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  save_or_die(folder, model, 123456789);
  for (const char* name : {"step-12", "step-00000012x", "step--0000012", "notes.txt", "step-0000000012"}) {
    ASSERT_TRUE(make_directories(folder + "/" + name).has_value());
  }
  EXPECT_EQ(*saved_steps(folder), (std::vector<int64_t>{123456789}));
  save_or_die(folder, model, 123456790, {.keep_last = 1});
  EXPECT_EQ(names_in(folder).size(), 6U);
}

TEST(Checkpoint, AFlippedBitNamesTensorAndBytes) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  const std::string path = save_or_die(folder, model, 10).path;
  const std::string file = path + "/model.safetensors";
  const int64_t size = *file_bytes(file);
  flip_bit(file, size - 1);
  const std::string message = whole_error(path);
  EXPECT_TRUE(has(message, "model.safetensors: the checksum of tensor h.0.mlp.weight (bytes ")) << message;
  EXPECT_TRUE(has(message, "Resume from another checkpoint")) << message;
  auto opened = Checkpoint::open(path);
  ASSERT_TRUE(opened.has_value());
  Model loaded(2);
  const auto read = opened->read("model", loaded.model());
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(has(read.error().message, "tensor h.0.mlp.weight"));
  EXPECT_TRUE(opened->read("optimizer", loaded.optimizer()).has_value());
}

// Every 61st byte of every file, and each whole JSON file: damage is found wherever it is, and never crashes.
TEST(Checkpoint, AFlippedBitAnywhereIsFound) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  const std::string path = save_or_die(folder, model, 10).path;
  for (const std::string& name : names_in(path)) {
    const std::string file = path + "/" + name;
    const int64_t size = *file_bytes(file);
    const int64_t stride = name.ends_with(".json") ? 1 : std::max<int64_t>(61, size / 41);
    for (int64_t at = 0; at < size; at += stride) {
      flip_bit(file, at);
      EXPECT_NE(whole_error(path), "") << name << " byte " << at;
      flip_bit(file, at);
    }
    flip_bit(file, size - 1);
    EXPECT_NE(whole_error(path), "") << name << " last byte";
    flip_bit(file, size - 1);
  }
  EXPECT_EQ(whole_error(path), "");
}

TEST(Checkpoint, AShortOrMissingFileIsNamed) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  const std::string path = save_or_die(folder, model, 10).path;
  for (const std::string& name : names_in(path)) {
    const std::string file = path + "/" + name;
    const std::string bytes = *read_file(file);
    for (const size_t size : {size_t{0}, bytes.size() / 2, bytes.size() - 2}) {
      std::filesystem::resize_file(file, size);
      EXPECT_TRUE(has(whole_error(path), file)) << name << " of " << size << " bytes: " << whole_error(path);
      ASSERT_TRUE(write_file_atomically(file, bytes).has_value());
    }
    ASSERT_TRUE(remove_all(file).has_value());
    EXPECT_TRUE(has(whole_error(path), file + " is missing")) << whole_error(path);
    ASSERT_TRUE(write_file_atomically(file, bytes).has_value());
  }
  EXPECT_EQ(whole_error(path), "");
  EXPECT_TRUE(has(whole_error(folder + "/step-00000099"), "There is no checkpoint at"));
}

TEST(Checkpoint, ANewerFormatSaysSo) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  save_or_die(folder, model, 10);
  const std::string path = save_or_die(folder, model, 20).path;
  const std::string file = path + "/manifest.json";
  std::string text = *read_file(file);
  const std::string field = "\"format_version\": 2";
  text.replace(text.find(field), field.size(), "\"format_version\": 9");
  ASSERT_TRUE(write_file_atomically(file, text).has_value());
  EXPECT_TRUE(has(whole_error(path), "format_version 9 is newer than 2")) << whole_error(path);
  // Passing over it would silently go back in time.
  const auto found = latest(folder);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kInvalid);
}

// tests/golden/checkpoint_v1 was written by Ingot 0.1.0 before ranks wrote together.
TEST(Checkpoint, Version1IsRead) {
  auto opened = Checkpoint::open(std::string(INGOT_SOURCE_DIR) + "/tests/golden/checkpoint_v1/step-00000002");
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_TRUE(opened->verify().has_value());
  EXPECT_EQ(opened->state().step, 2);
  EXPECT_EQ(opened->groups(), (std::vector<std::string>{"model", "optimizer"}));
  auto tensors = opened->tensors("model");
  ASSERT_TRUE(tensors.has_value());
  std::vector<std::vector<float>> memory;
  for (NamedTensor& tensor : *tensors) {
    memory.emplace_back(static_cast<size_t>(tensor.view.elements()), -1000.0F);
    tensor.view.data = memory.back().data();
  }
  ASSERT_TRUE(opened->read("model", *tensors).has_value());
  for (const std::vector<float>& values : memory) {
    for (const float value : values) ASSERT_LT(std::abs(value), 10);
  }
}

TEST(Checkpoint, ADamagedNewestIsPassedOverAloud) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  for (int64_t step : {10, 20, 30}) save_or_die(folder, model, step);
  flip_bit(folder + "/step-00000030/optimizer.safetensors", 5000);
  std::filesystem::resize_file(folder + "/step-00000020/manifest.json", 100);
  auto found = latest(folder);
  ASSERT_TRUE(found.has_value() && found->has_value()) << found.error().message;
  EXPECT_EQ((*found)->step, 10);
  ASSERT_EQ((*found)->notes.size(), 2U);
  EXPECT_TRUE(has((*found)->notes[0], "The checkpoint of step 30 is damaged and was passed over: "));
  EXPECT_TRUE(has((*found)->notes[0], "optimizer.safetensors"));
  flip_bit(folder + "/step-00000010/state.json", 40);
  const auto none = latest(folder);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(has(none.error().message, "None of the 3 checkpoints")) << none.error().message;
}

TEST(Checkpoint, AnotherModelIsRefusedInWords) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  Model model(1);
  const std::string path = save_or_die(folder, model, 1000).path;
  auto opened = Checkpoint::open(path);
  ASSERT_TRUE(opened.has_value());
  Fields fields = record_of(1).model;
  EXPECT_TRUE(opened->require_model(fields, "").has_value());
  fields[1].second = "50257";
  auto refused = opened->require_model(fields, "Resume with its own: ingot train runs/book-1");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "The checkpoint at " + path +
                " is of a model with vocab 4,096; this configuration has 50,257. Resume with "
                "its own: ingot train runs/book-1");

  Model other(1);
  auto views = other.model();
  views[0].view.shape = Shape{5, 13};
  views[1].name = "h.1.norm.weight";
  refused = opened->read("model", views);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(has(refused.error().message,
                  "embed.weight is F32 [13, 5] in it and f32 [5, 13] here; h.1.norm.weight is "
                  "not in it; h.0.norm.weight is in it and not here"))
      << refused.error().message;
  EXPECT_FALSE(opened->read("ema", other.model()).has_value());
}

TEST(Checkpoint, AFullDiskKeepsThePreviousOne) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  ASSERT_TRUE(make_directories(folder).has_value());
  if (mount("none", folder.c_str(), "tmpfs", 0, "size=3m") != 0) {
    GTEST_SKIP() << "mounting a small file system needs root and a kernel that lets it";
  }
  Model ten(10), twenty(20);
  save_or_die(folder, ten, 10);
  const auto report = save(folder, twenty.groups(), record_of(20), {.keep_last = 1});
  const auto names = names_in(folder);
  const std::string error = whole_error(folder + "/step-00000010");
  umount(folder.c_str());
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kIo);
  EXPECT_TRUE(has(report.error().message, "The checkpoint of step 10 is untouched. Free space"))
      << report.error().message;
  EXPECT_TRUE(has(report.error().message, "the disk is too full. It needs 1,8")) << report.error().message;
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000010"}));
  EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace ingot::checkpoint
