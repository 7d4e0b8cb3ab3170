#include "train/run_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/test_folder.h"

namespace ingot::train {
namespace {

MetricsLine line_of(int64_t step) {
  MetricsLine line;
  line.step = step;
  line.loss = 2.5;
  line.learning_rate = 1e-3;
  line.data_stall_ms = 1.5;
  return line;
}

TEST(RunFiles, AMetricsLineHasEveryFieldAndLeavesAbsentOnesOut) {
  const auto json = nlohmann::json::parse(to_json(line_of(3)));
  EXPECT_EQ(json.at("step"), 3);
  EXPECT_EQ(json.at("loss"), 2.5);
  EXPECT_EQ(json.at("format_version"), kMetricsFormatVersion);
  EXPECT_EQ(json.at("stall_ms").at("data"), 1.5);
  EXPECT_FALSE(json.contains("val_loss"));
  EXPECT_FALSE(json.contains("skipped"));
  MetricsLine line = line_of(4);
  line.validation_loss = 2.25;
  line.skipped = true;
  const auto full = nlohmann::json::parse(to_json(line));
  EXPECT_EQ(full.at("val_loss"), 2.25);
  EXPECT_EQ(full.at("skipped"), true);
}

TEST(RunFiles, ALossThatIsNoNumberIsStillALineOfJson) {
  MetricsLine line = line_of(1);
  line.loss = std::numeric_limits<double>::quiet_NaN();
  line.grad_norm = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json(line));
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_TRUE(json.at("grad_norm").is_null());
}

TEST(RunFiles, LinesAreAddedToWhatIsThere) {
  const TestFolder folder;
  const std::string run = folder / "a/b";
  for (const int64_t step : {1, 2}) {
    auto files = RunFiles::open(run);
    ASSERT_TRUE(files) << files.error().message;
    ASSERT_TRUE(files->write(line_of(step)));
    ASSERT_TRUE(files->write(Event{Severity::kWarning, "spike", "The loss rose", {{"step", step}}}));
  }
  EXPECT_EQ(data::slurp(run + "/metrics.jsonl"), to_json(line_of(1)) + "\n" + to_json(line_of(2)) + "\n");
  std::istringstream events(data::slurp(run + "/events.jsonl"));
  std::string text;
  int count = 0;
  while (std::getline(events, text)) {
    ++count;
    EXPECT_NE(text.find("spike"), std::string::npos) << text;
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
  }
  EXPECT_EQ(count, 2);
}

TEST(RunFiles, AFolderThatCannotBeMadeIsNamed) {
  const TestFolder folder;
  folder.write("file", "not a folder");
  auto files = RunFiles::open(folder / "file/run");
  ASSERT_FALSE(files);
  EXPECT_NE(files.error().message.find(folder / "file"), std::string::npos) << files.error().message;
}

TEST(RunFiles, AResumedRunForgetsLaterStepsAndATornLastLine) {
  const TestFolder folder;
  const std::string early = to_json(line_of(1)) + "\n" + to_json(line_of(5)) + "\n";
  const std::string path =
      folder.write("metrics.jsonl", early + to_json(line_of(6)) + "\n" + to_json(line_of(7)).substr(0, 20));
  ASSERT_TRUE(RunFiles::forget_after(folder.path(), 5));
  EXPECT_EQ(data::slurp(path), early);
  ASSERT_TRUE(RunFiles::forget_after(folder.path(), 0));
  EXPECT_EQ(data::slurp(path), "");
  ASSERT_TRUE(RunFiles::forget_after(folder / "no such run", 5));
}

}  // namespace
}  // namespace ingot::train
