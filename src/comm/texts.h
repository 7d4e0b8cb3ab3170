#pragma once
// Texts of any length between the members of a group: for what is rare and small (manifests, findings,
// choices of one rank for all), never inside a step. All members call the same functions in the same order.

#include <string>
#include <vector>

#include "comm/comm.h"

namespace ingot::comm {

// The root gets the texts of all, by index; the others get nothing.
Result<std::vector<std::string>> gather_texts(Communicator& group, const std::string& own, int root,
                                              const CallOptions& options);
// Every member gets the root's text; what the others pass is ignored.
Result<std::string> broadcast_text(Communicator& group, const std::string& text, int root,
                                   const CallOptions& options);
// Every member gets the texts of all, by index.
Result<std::vector<std::string>> exchange_texts(Communicator& group, const std::string& own,
                                                const CallOptions& options);

}  // namespace ingot::comm
