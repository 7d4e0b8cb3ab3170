#pragma once
// Events: everything that a run must not do silently. One line of JSON each in events.jsonl, a counter by
// kind in the metrics registry, and a line on the console where a person should see it.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"

namespace ingot {

enum class Severity : uint8_t { kInfo, kWarning, kError };

struct EventField {
  std::string key;
  std::variant<int64_t, double, std::string> value;
};

struct Event {
  Severity severity = Severity::kInfo;
  std::string kind;     // "step_skipped", "checkpoint_saved", "resumed", ...: snake_case, stable
  std::string message;  // one sentence for a person
  std::vector<EventField> fields;
};

// {"time":…,"severity":"warning","kind":…,"message":…, fields…}; no newline. Non-finite numbers become
// strings, and bytes that are no UTF-8 become U+FFFD.
std::string to_json_line(const Event& event, double unix_time_s);
std::string json_quoted(std::string_view text);  // with the quotes, escaped as RFC 8259 says
std::string json_number(double value);  // shortest that reads back the same; "nan", "inf", "-inf" quoted

// Where events go; a sink must be callable from any thread.
class EventLog {
 public:
  using Sink = std::function<void(const Event&)>;
  void add_sink(Sink sink);       // before threads start
  void emit(const Event& event);  // calls every sink in order, under one lock: a sink must not emit
  int64_t count(std::string_view kind) const;

 private:
  mutable Mutex mutex_;
  std::vector<Sink> sinks_ INGOT_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, int64_t>> counts_ INGOT_GUARDED_BY(mutex_);
};

}  // namespace ingot
