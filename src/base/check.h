#pragma once
// Checks for our own bugs. They stay on in release: a violated one prints the place, the condition and the
// values, and aborts. What a user or the world can cause is a Result (base/result.h), never a check.

#include <fmt/format.h>

#include <string>

namespace ingot {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace ingot

// INGOT_CHECK(condition, "format with {}", values...): the format is required and says what was expected.
#define INGOT_CHECK(condition, ...)                                                      \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::ingot::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
