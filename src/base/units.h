#pragma once
// Sizes, counts and times as people write them. Bytes are binary ("64MiB", also "64MB" = 10^6 bytes); counts
// take k, M, G/B, T as powers of 1000 ("10G" tokens); times take ms, s, m/min, h, d ("1h30m").

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot {

Result<int64_t> parse_bytes(std::string_view text);
Result<int64_t> parse_count(std::string_view text);
Result<double> parse_seconds(std::string_view text);

std::string format_bytes(int64_t bytes);      // "1.31 GiB"
std::string format_count(double count);       // "12.2 M"
std::string format_integer(int64_t value);    // "12,911"
std::string format_duration(double seconds);  // "14:40", "2:03:11", "3 d 04:00"

// The name in `candidates` nearest to `name` by edit distance, empty when none is near (more than a third
// changed).
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace ingot
