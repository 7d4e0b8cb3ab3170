#include "base/event.h"

#include <fmt/format.h>

#include <cmath>

namespace ingot {
namespace {

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "error";
}

// Length of the valid UTF-8 sequence at the front of `text`, 0 when there is none (RFC 3629).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : fmt::format("\"{}\"", value);
}

std::string to_json_line(const Event& event, double unix_time_s) {
  std::string line =
      fmt::format("{{\"time\":{:.3f},\"severity\":\"{}\",\"kind\":{},\"message\":{}", unix_time_s,
                  severity_name(event.severity), json_quoted(event.kind), json_quoted(event.message));
  for (const EventField& field : event.fields) {
    line += "," + json_quoted(field.key) + ":";
    if (const auto* integer = std::get_if<int64_t>(&field.value)) {
      line += fmt::format("{}", *integer);
    } else if (const auto* real = std::get_if<double>(&field.value)) {
      line += json_number(*real);
    } else {
      line += json_quoted(std::get<std::string>(field.value));
    }
  }
  return line + "}";
}

void EventLog::add_sink(Sink sink) {
  const MutexLock lock(mutex_);
  sinks_.push_back(std::move(sink));
}

void EventLog::emit(const Event& event) {
  const MutexLock lock(mutex_);
  bool counted = false;
  for (auto& [kind, count] : counts_) {
    if (kind == event.kind) {
      ++count;
      counted = true;
    }
  }
  if (!counted) counts_.emplace_back(event.kind, 1);
  for (const Sink& sink : sinks_) sink(event);
}

int64_t EventLog::count(std::string_view kind) const {
  const MutexLock lock(mutex_);
  for (const auto& [name, count] : counts_) {
    if (name == kind) return count;
  }
  return 0;
}

}  // namespace ingot
