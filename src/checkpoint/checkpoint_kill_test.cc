// Saves that are killed, or fail, at every place where they touch the disk.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_testing.h"

namespace ingot::checkpoint {
namespace {

// Makes `folder` hold the checkpoints of steps 10 and 20; written once, then copied.
void start_from_two(const std::string& folder) {
  const std::string origin = folder + "-origin";
  if (!path_exists(origin)) {
    Model ten(10), twenty(20);
    save_or_die(origin, ten, 10);
    save_or_die(origin, twenty, 20);
  }
  std::filesystem::remove_all(folder);
  std::filesystem::copy(origin, folder, std::filesystem::copy_options::recursive);
}

constexpr const char* kPoints[] = {"begin",          "after_model",   "after_optimizer", "after_state",
                                   "after_manifest", "before_rename", "after_rename",    "before_prune",
                                   "during_prune",   "after_prune"};

// Saves step 30 with keep_last 2.
using Save = std::function<bool(const std::string& folder)>;

bool save_alone(const std::string& folder) {
  Model model(30);
  return save(folder, model.groups(), record_of(30), {.keep_last = 2}).has_value();
}

// Each of three ranks writes rows of every tensor.
bool save_by_three(const std::string& folder) {
  std::atomic<int> saved = 0;
  on_ranks(3, [&](comm::Communicator& ranks, int rank) {
    Model model(30);
    std::vector<TensorGroup> groups = model.groups();
    for (TensorGroup& group : groups) {
      for (NamedTensor& tensor : group.tensors) {
        const tensor::Shape whole = tensor.view.shape;
        const int64_t first = whole[0] * rank / 3, end = whole[0] * (rank + 1) / 3;
        tensor.view.data = tensor.view.as<float>() + first * whole.elements() / whole[0];
        tensor.view.shape = whole.with(0, end - first);
        tensor.part = Part{std::vector<int64_t>(static_cast<size_t>(whole.rank()), 0), whole};
        tensor.part->offset[0] = first;
      }
    }
    if (save(ranks, folder, groups, record_of(30), {.keep_last = 2})) ++saved;
  });
  return saved == 3;
}

// Forks a child that saves and dies at `fault`; returns whether it was killed.
bool save_in_child(const Save& save, const std::string& folder, const std::string& fault) {
  const pid_t child = fork();
  if (child == 0) {
    set_fault(fault);
    _exit(save(folder) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

void expect_old_or_new(const std::string& folder, const std::string& where) {
  auto found = latest(folder);
  ASSERT_TRUE(found.has_value() && found->has_value()) << where;
  const int64_t step = (*found)->step;
  EXPECT_TRUE(step == 20 || step == 30) << where;
  auto opened = Checkpoint::open((*found)->path);
  ASSERT_TRUE(opened.has_value()) << where;
  Model loaded(99), expected(static_cast<int>(step));
  ASSERT_TRUE(opened->read("model", loaded.model()).has_value());
  ASSERT_TRUE(opened->read("optimizer", loaded.optimizer()).has_value());
  EXPECT_TRUE(loaded == expected) << where;
  for (const std::string& name : names_in(folder)) EXPECT_EQ(name.size(), 13U) << where << " left " << name;
  Model next(40);
  save_or_die(folder, next, 40, {.keep_last = 2});
  const std::string before = step == 30 ? "step-00000030" : "step-00000020";
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{before, "step-00000040"})) << where;
}

TEST(Checkpoint, KilledAtAnyPointItIsOldOrNew) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  for (const auto save : {save_alone, save_by_three}) {
    for (const std::string point : kPoints) {
      start_from_two(folder);
      EXPECT_TRUE(save_in_child(save, folder, "checkpoint." + point + "=kill")) << point;
      expect_old_or_new(folder, point);
    }
  }
}

TEST(Checkpoint, KilledAtAnySystemCallItIsOldOrNew) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  int killed = 0;
  for (int n = 1; n < 200; ++n) {
    start_from_two(folder);
    if (!save_in_child(save_alone, folder, "*:" + std::to_string(n) + "=kill")) break;
    ++killed;
    expect_old_or_new(folder, "call " + std::to_string(n));
  }
  EXPECT_GT(killed, 20);
  EXPECT_LT(killed, 199);
}

TEST(Checkpoint, KilledWhileThreeRanksWriteItIsOldOrNew) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  int killed = 0;
  for (int n = 1; n < 400; n += 3) {
    start_from_two(folder);
    if (!save_in_child(save_by_three, folder, "*:" + std::to_string(n) + "=kill")) break;
    ++killed;
    expect_old_or_new(folder, "call " + std::to_string(n));
  }
  EXPECT_GT(killed, 15);
  EXPECT_LT(killed, 133);
}

TEST(Checkpoint, AFailureAtAnySystemCallLeavesNothingHalf) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  int failed = 0;
  for (int n = 1; n < 200; ++n) {
    start_from_two(folder);
    set_fault("*:" + std::to_string(n) + "=enospc");
    Model thirty(30);
    const auto report = save(folder, thirty.groups(), record_of(30), {.keep_last = 2});
    const std::string left = [&] {
      std::string out;
      for (const auto& name : names_in(folder)) out += name + " ";
      return out;
    }();
    const FaultKind fired = fault_at("checkpoint.probe");
    set_fault("");
    if (fired != FaultKind::kNone || n == 199) break;  // the save was over before the n-th call
    ++failed;
    EXPECT_FALSE(has(left, "partial")) << n << " left " << left;
    auto found = latest(folder);
    ASSERT_TRUE(found.has_value() && found->has_value());
    EXPECT_EQ((*found)->step, has(left, "step-00000030") ? 30 : 20) << n;
    if (report) continue;
    EXPECT_EQ(report.error().code, ErrorCode::kIo);
    EXPECT_TRUE(has(report.error().message, "It needs ")) << report.error().message;
    EXPECT_TRUE(has(report.error().message, "are free there. The checkpoint of step 20 is untouched."))
        << report.error().message;
  }
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace ingot::checkpoint
