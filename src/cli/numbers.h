#pragma once
// Numbers among the options, with their limits in the message.

#include "cli/arguments.h"

namespace ingot::cli {

Result<int64_t> parse_integer(std::string_view flag, const std::string& text, int64_t low, int64_t high);
Result<int64_t> integer_option(const Arguments& arguments, std::string_view flag, int64_t otherwise,
                               int64_t low, int64_t high);
Result<double> real_option(const Arguments& arguments, std::string_view flag, double otherwise, double low,
                           double high);

}  // namespace ingot::cli
