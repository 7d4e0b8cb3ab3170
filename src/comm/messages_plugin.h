#pragma once
// Messages of a plug-in (messages_table.h): opened, told its rank, and introduced to the others through a
// rendezvous. Internal to comm.

#include <chrono>
#include <memory>
#include <string>

#include "comm/messages.h"
#include "comm/messages_table.h"

namespace ingot::comm {

// Errors (kUnavailable): those of find_plugin() and PluginLibrary::open, a table with empty entries.
Result<const IngotMessagesTable*> open_messages_plugin(const std::string& file);

// `address` is a rendezvous.h one; a world of 1 needs none. Errors: what the rendezvous or the plug-in says.
Result<std::unique_ptr<Messages>> start_messages(const IngotMessagesTable& table, int rank, int world,
                                                 const std::string& address, std::chrono::milliseconds limit);

// The node of this process: processes with the same text share memory and see each other's process ids.
std::string node_identity();

}  // namespace ingot::comm
