#include "base/event.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace ingot {
namespace {

TEST(Event, OneLineOfJson) {
  const Event event{Severity::kWarning,
                    "step_skipped",
                    "line\n\"quoted\" \x01 \xff caf\xc3\xa9",
                    {{"step", int64_t{7}},
                     {"loss", 0.1},
                     {"norm", std::numeric_limits<double>::quiet_NaN()},
                     {"where", std::string("a\\b")}}};
  EXPECT_EQ(
      to_json_line(event, 1.5),
      "{\"time\":1.500,\"severity\":\"warning\",\"kind\":\"step_skipped\",\"message\":"
      "\"line\\n\\\"quoted\\\" \\u0001 \xEF\xBF\xBD caf\xc3\xa9\",\"step\":7,\"loss\":0.1,\"norm\":\"nan\","
      "\"where\":\"a\\\\b\"}");
}

TEST(Event, JsonTextKeepsOnlyValidUtf8) {
  EXPECT_EQ(json_quoted("\xe4\xb8\xad\xf0\x9f\x98\x80"), "\"\xe4\xb8\xad\xf0\x9f\x98\x80\"");
  EXPECT_EQ(json_quoted("\xc0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"") << "an over-long form";
  EXPECT_EQ(json_quoted("\xed\xa0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"") << "a surrogate";
  EXPECT_EQ(json_quoted("a\xe4\xb8"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"") << "cut short";
}

TEST(EventLog, CountsByKindFromManyThreads) {
  EventLog log;
  int seen = 0;
  log.add_sink([&](const Event&) { ++seen; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 100; ++i) log.emit({Severity::kInfo, t % 2 == 0 ? "even" : "odd", "", {}});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen, 400);
  EXPECT_EQ(log.count("even"), 200);
  EXPECT_EQ(log.count("odd"), 200);
  EXPECT_EQ(log.count("other"), 0);
}

}  // namespace
}  // namespace ingot
