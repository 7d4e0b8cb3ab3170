#pragma once
// Which checkpoints of a folder stay. Private to checkpoint: checkpoint.h is the interface.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace ingot::checkpoint {

inline constexpr std::string_view kAsideSuffix = ".aside";
inline constexpr std::string_view kDeletingSuffix = ".deleting";

// The step of a checkpoint's folder name; nothing for any other name.
std::optional<int64_t> step_of(std::string_view name);

// After the checkpoint of `step` was written and is known to be good: sets later ones aside, removes old
// ones. What fails becomes a note of `report`: the checkpoint itself is saved.
void retain(const std::string& folder, int64_t step, const SaveOptions& options, SaveReport& report);

// Removes half-written and half-removed checkpoints of processes that are gone; returns their names.
Result<std::vector<std::string>> remove_killed_saves(const std::string& folder);

}  // namespace ingot::checkpoint
