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

// The same for what can fail, so that all members end alike. Every member gets the root's value, or its error
// as it is.
Result<std::string> broadcast_result(Communicator& group, const Result<std::string>& own, int root,
                                     const CallOptions& options);
// The root gets what became of each member, by index; the others get nothing.
Result<std::vector<Result<std::string>>> gather_results(Communicator& group, const Result<std::string>& own,
                                                        int root, const CallOptions& options);
// Every member gets what became of each, by index.
Result<std::vector<Result<std::string>>> exchange_results(Communicator& group, const Result<std::string>& own,
                                                          const CallOptions& options);

}  // namespace ingot::comm
