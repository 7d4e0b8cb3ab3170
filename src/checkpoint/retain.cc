#include "checkpoint/retain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/file.h"

namespace ingot::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr size_t kDigits = 8;

Result<void> rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) return io_error(fmt::format("cannot rename {} to {}: {}", from, to, error.message()));
  return {};
}

// Renamed first: a kill in the middle then never leaves something that looks like a checkpoint.
Result<void> remove_checkpoint(const std::string& path) {
  const std::string doomed = path + std::string(kDeletingSuffix);
  INGOT_TRY_VOID(remove_all(doomed));
  INGOT_TRY_VOID(rename_folder(path, doomed));
  INGOT_TRY_VOID(check_fault("checkpoint.during_prune", doomed));
  return remove_all(doomed);
}

Result<void> set_aside(const std::string& path) {
  const std::string aside = path + std::string(kAsideSuffix);
  INGOT_TRY_VOID(remove_all(aside));
  return rename_folder(path, aside);
}

bool contains(const std::vector<int64_t>& steps, int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

Result<void> retain_or_fail(const std::string& folder, int64_t step, const SaveOptions& options,
                            SaveReport& report) {
  INGOT_TRY_VOID(check_fault("checkpoint.before_prune", folder));
  INGOT_TRY(std::vector<int64_t> steps, saved_steps(folder));
  while (!steps.empty() && steps.back() > step) {
    const std::string name = step_folder(steps.back());
    INGOT_TRY_VOID(set_aside(folder + "/" + name));
    report.notes.push_back(
        fmt::format("{}/{} is later than step {} and of another history; it was renamed {}{}", folder, name,
                    step, name, kAsideSuffix));
    steps.pop_back();
  }
  if (options.keep_last > 0) {
    const int64_t excess = static_cast<int64_t>(steps.size()) - options.keep_last;
    for (int64_t i = 0; i < excess; ++i) {
      const int64_t old = steps[static_cast<size_t>(i)];
      if (contains(options.keep_steps, old)) continue;
      INGOT_TRY_VOID(remove_checkpoint(folder + "/" + step_folder(old)));
      report.removed.push_back(step_folder(old));
    }
  }
  return check_fault("checkpoint.after_prune", folder);
}

}  // namespace

std::string step_folder(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (digits.size() < kDigits || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() ||
      step < 0) {
    return std::nullopt;
  }
  if (step_folder(step) != name) return std::nullopt;
  return step;
}

Result<std::vector<int64_t>> saved_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  if (!path_exists(folder)) return steps;
  INGOT_TRY(const std::vector<std::string> names, list_directory(folder));
  for (const std::string& name : names) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void retain(const std::string& folder, int64_t step, const SaveOptions& options, SaveReport& report) {
  if (auto done = retain_or_fail(folder, step, options, report); !done) {
    report.notes.push_back(fmt::format("Step {} is saved, but old checkpoints could not be cleared away: {}",
                                       step, done.error().message));
  }
}

Result<std::vector<std::string>> remove_killed_saves(const std::string& folder) {
  INGOT_TRY(std::vector<std::string> removed, remove_leftovers(folder));
  INGOT_TRY(const std::vector<std::string> names, list_directory(folder));
  for (const std::string& name : names) {
    if (!name.ends_with(kDeletingSuffix)) continue;
    const std::string_view checkpoint =
        std::string_view(name).substr(0, name.size() - kDeletingSuffix.size());
    if (!step_of(checkpoint)) continue;
    INGOT_TRY_VOID(remove_all(folder + "/" + name));
    removed.push_back(name);
  }
  return removed;
}

}  // namespace ingot::checkpoint
