#pragma once
// What a person reads when an agent's ranks have ended, and the exit code.

#include <string>

#include "cli/console.h"
#include "launch/agent.h"

namespace ingot::cli {

// An agent's voice on this console, which it borrows.
launch::AgentVoice voice_of(Console& console, const std::string& log_folder);

// `log_folder` holds the logs of ranks other than 0; empty where their outputs went elsewhere. Does not
// return where the agent was told to end at once: then it ends by the same signal.
int report(Console& console, const launch::AgentResult& result, const std::string& log_folder);

}  // namespace ingot::cli
