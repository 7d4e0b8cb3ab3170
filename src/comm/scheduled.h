#pragma once
// A transport over any Messages: communicators whose collectives are schedules of cost, run by the engine.

#include <memory>

#include "comm/comm.h"
#include "comm/engine.h"

namespace ingot::comm {

std::unique_ptr<Transport> make_scheduled_transport(std::unique_ptr<Messages> messages,
                                                    const EngineOptions& options);

}  // namespace ingot::comm
