#pragma once
// Events: everything that a run must not do silently. One line of JSON each in events.jsonl, a counter by kind in the
// metrics registry, and a line on the console where a person should see it.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ingot {

enum class Severity : uint8_t { kInfo, kWarning, kError };

struct EventField {
  std::string key;
  std::variant<int64_t, double, std::string> value;
};

struct Event {
  Severity severity = Severity::kInfo;
  std::string kind;      // "step_skipped", "checkpoint_saved", "resumed", ...: snake_case, stable
  std::string message;   // one sentence for a person
  std::vector<EventField> fields;
};

std::string to_json_line(const Event& event, double unix_time_s);

// Where events go; a sink must be callable from any thread.
class EventLog {
 public:
  using Sink = std::function<void(const Event&)>;
  void add_sink(Sink sink);                  // before threads start
  void emit(const Event& event);             // calls every sink in order, under one lock
  int64_t count(std::string_view kind) const;

 private:
  std::vector<Sink> sinks_;
  std::vector<std::pair<std::string, int64_t>> counts_;
};

}  // namespace ingot
