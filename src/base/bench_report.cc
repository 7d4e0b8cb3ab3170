#include "base/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/thread_pool.h"

namespace ingot {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string name;
  for (std::string line; std::getline(info, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) name += value;
    if (line.starts_with("cpu family")) name = fmt::format("family {} ", value) + name;
    if (line.starts_with("model\t\t")) name = fmt::format("{}model {} ", name, value);
  }
  while (name.ends_with(' ')) name.pop_back();
  return name.empty() ? "unknown processor" : name;
}

BenchReport::BenchReport(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--check") {
      check_ = true;
    } else if (word == "--json" && i + 1 < argc) {
      json_path_ = argv[++i];
    } else {
      arguments_.push_back(word);
    }
  }
  fmt::print("machine: {}, {} threads\n", processor_name(), available_threads());
}

void BenchReport::add(std::string_view name, double figure, std::string_view unit, std::optional<double> bar,
                      Better better) {
  const bool missed = bar && (better == Better::kHigher ? !(figure >= *bar) : !(figure <= *bar));
  missed_ += missed ? 1 : 0;
  const std::string limit =
      bar ? fmt::format("   bar {} {:g}{}", better == Better::kHigher ? ">=" : "<=", *bar,
                        missed ? "  MISSED" : "")
          : "";
  fmt::print("{:<44} {:>12.4f} {}{}\n", name, figure, unit, limit);
  std::fflush(stdout);
  if (json_path_.empty()) return;
  std::ofstream out(json_path_, std::ios::app);
  out << fmt::format(R"({{"name":"{}","figure":{},"unit":"{}","bar":{},"better":"{}","machine":"{}"}})", name,
                     figure, unit, bar ? fmt::format("{}", *bar) : "null",
                     better == Better::kHigher ? "higher" : "lower", processor_name())
      << "\n";
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int run_bench(int argc, char** argv, Result<int> (*run)(BenchReport& report)) {
  BenchReport report(argc, argv);
  const auto code = run(report);
  if (code) return *code;
  report.note(code.error().message);
  return 1;
}

void BenchReport::note(std::string_view text) { fmt::print("{}\n", text); }

int BenchReport::finish() const {
  if (missed_ > 0) fmt::print("{} figure{} below the bar\n", missed_, missed_ == 1 ? "" : "s");
  return check_ && missed_ > 0 ? 1 : 0;
}

}  // namespace ingot
