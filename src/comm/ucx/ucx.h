#pragma once
// The transport ucx: UCX's tag matching (shared memory inside a node; RoCE, InfiniBand or TCP between nodes),
// in libingot-ucx.so. Internal to comm.

#include "base/result.h"
#include "comm/messages_table.h"

namespace ingot::comm::ucx {

// Errors: those of open_messages_plugin().
Result<const IngotMessagesTable*> open();

}  // namespace ingot::comm::ucx
