#include <fmt/format.h>

#include <array>

#include "base/units.h"
#include "comm/comm.h"
#include "comm/messages_plugin.h"
#include "comm/scheduled.h"
#include "comm/ucx/ucx.h"

namespace ingot::comm {
namespace {

Result<std::unique_ptr<Transport>> join_local(int rank, int world, const std::string&, const JoinOptions&) {
  if (world != 1 || rank != 0) {
    return invalid(
        fmt::format("transport local joins no other process (rank {} of {}): its ranks are threads of one "
                    "process. Use it with one rank",
                    rank, world));
  }
  return std::move(make_local_world(1).front());
}

using Opened = Result<const IngotMessagesTable*>;

Opened open_mpi() { return open_messages_plugin("libingot-mpi.so"); }

// The messages of a plug-in, with the engine over them.
template <Opened (*open)()>
Result<std::unique_ptr<Transport>> join_by(int rank, int world, const std::string& address,
                                           const JoinOptions& options) {
  INGOT_TRY(const IngotMessagesTable* table, open());
  INGOT_TRY(auto messages, start_messages(*table, rank, world, address, options.limit));
  EngineOptions engine;
  engine.page = options.page;
  engine.generation = options.generation;
  engine.node = node_identity();
  return make_scheduled_transport(std::move(messages), engine);
}

template <Opened (*open)()>
std::string why_not() {
  const Opened opened = open();
  return opened ? std::string() : opened.error().message;
}

constexpr std::array kTransports = {
    TransportRow{"local", "ranks as threads of one process", join_local, [] { return std::string(); }},
    TransportRow{"ucx", "processes, over shared memory in a node, RoCE, InfiniBand or TCP between nodes",
                 join_by<ucx::open>, why_not<ucx::open>},
    TransportRow{"mpi", "processes started by mpirun, over the MPI of the site", join_by<open_mpi>,
                 why_not<open_mpi>},
};

}  // namespace

std::string describe_call(std::string_view operation, int64_t bytes, const CallOptions& options) {
  std::string text(operation);
  if (options.instruction >= 0) text += fmt::format(" #{}", options.instruction);
  const bool named = options.what != nullptr && options.what[0] != '\0';
  if (named && bytes > 0) return fmt::format("{} ({}, {})", text, options.what, format_bytes(bytes));
  if (named) return fmt::format("{} ({})", text, options.what);
  return bytes > 0 ? fmt::format("{} ({})", text, format_bytes(bytes)) : text;
}

Result<void> Communicator::send(const TensorView& in, int to, int tag, const CallOptions& options) {
  INGOT_TRY(const Ticket ticket, post_send(in, to, tag, options));
  return wait(ticket, options);
}

Result<void> Communicator::receive(const TensorView& out, int from, int tag, const CallOptions& options) {
  INGOT_TRY(const Ticket ticket, post_receive(out, from, tag, options));
  return wait(ticket, options);
}

std::span<const TransportRow> all_transports() { return kTransports; }

Result<std::unique_ptr<Transport>> join_world(std::string_view transport, int rank, int world,
                                              const std::string& address, const JoinOptions& options) {
  std::string names;
  for (const TransportRow& row : kTransports) {
    if (row.name == transport) {
      if (const std::string reason = row.unavailable(); !reason.empty())
        return Error{ErrorCode::kUnavailable,
                     fmt::format("transport {} cannot be had here: {}", transport, reason)};
      return row.join(rank, world, address, options);
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return not_found(fmt::format("there is no transport {}; these are: {}", transport, names));
}

}  // namespace ingot::comm
