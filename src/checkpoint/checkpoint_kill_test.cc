// Saves that are killed, or fail, at every place where they touch the disk.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

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

// Forks a child that saves step 30 with keep_last 2 and dies at `fault`; returns whether it was killed.
bool save_in_child(const std::string& folder, const std::string& fault) {
  const pid_t child = fork();
  if (child == 0) {
    set_fault(fault);
    Model model(30);
    const auto report = save(folder, model.groups(), record_of(30), {.keep_last = 2});
    _exit(report.has_value() ? 0 : 1);
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
  for (const std::string point : kPoints) {
    start_from_two(folder);
    EXPECT_TRUE(save_in_child(folder, "checkpoint." + point + "=kill")) << point;
    expect_old_or_new(folder, point);
  }
}

TEST(Checkpoint, KilledAtAnySystemCallItIsOldOrNew) {
  const TestFolder scratch;
  const std::string folder = scratch.checkpoints();
  int killed = 0;
  for (int n = 1; n < 200; ++n) {
    start_from_two(folder);
    if (!save_in_child(folder, "*:" + std::to_string(n) + "=kill")) break;
    ++killed;
    expect_old_or_new(folder, "call " + std::to_string(n));
  }
  EXPECT_GT(killed, 20);
  EXPECT_LT(killed, 199);
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
