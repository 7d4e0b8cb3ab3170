#include "comm/ucx/ucx.h"

#include <cstdlib>

#include "comm/messages_plugin.h"

namespace ingot::comm::ucx {

Result<const IngotMessagesTable*> open() {
  // Read when the library is loaded. Without the first UCX catches our crashes and prints its own trace; the
  // second hides what it says of requests that a failure left behind.
  setenv("UCX_HANDLE_ERRORS", "", 0);
  setenv("UCX_LOG_LEVEL", "error", 0);
  return open_messages_plugin("libingot-ucx.so");
}

}  // namespace ingot::comm::ucx
