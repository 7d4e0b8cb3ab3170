#pragma once
// What every benchmark prints: a figure a line with its bar, and with --json FILE the same as one JSON object
// a line (name, figure, unit, bar, better, machine). With --check a figure that misses its bar makes the exit
// status 1.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot {

enum class Better : unsigned char { kHigher, kLower };

class BenchReport {
 public:
  // Takes --check and --json FILE out of the arguments; the rest is in arguments().
  BenchReport(int argc, char** argv);
  const std::vector<std::string>& arguments() const { return arguments_; }

  // A figure, with the bar that it must reach where it has one.
  void add(std::string_view name, double figure, std::string_view unit,
           std::optional<double> bar = std::nullopt, Better better = Better::kHigher);
  void note(std::string_view text);  // a line for people
  int finish() const;                // the exit status

 private:
  std::vector<std::string> arguments_;
  std::string json_path_;
  bool check_ = false;
  int missed_ = 0;
};

double median(std::vector<double> values);  // the upper of the two middle ones

// The main of a benchmark: an error is printed and makes the exit status 1.
int run_bench(int argc, char** argv, Result<int> (*run)(BenchReport& report));

std::string processor_name();  // of /proc/cpuinfo, with family and model

}  // namespace ingot
