#pragma once
// Messages between ranks. A Communicator is one rank's handle on one group; all members call the same
// operations in the same order. Every call has a time limit and carries the id of the instruction that makes
// it and a sequence number, so that a hang can be told in one sentence. To add a transport: a folder
// comm/<name>/ and a row in transports.cc; the suite of contract_suite.h then tests it.
//
// A call that takes longer than its limit is warned of once (Transport::on_warning), one that takes twice as
// long is given up. Errors (kFault) of a call: a member that has not come by then; members that call
// different operations, sizes or sequence numbers (two calls that differ are named); a connection that broke.
// Each breaks the group: every later call of this member returns the same error at once. Ranks of one process
// all learn of it at once, and the sentence names all that have not come; ranks of several processes learn of
// it each by itself, each naming the peer that it waits for, since a schedule waits for few of the others.

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/progress_page.h"
#include "graph/mesh.h"
#include "tensor/tensor.h"

namespace ingot::cost {
struct CollectiveCall;
struct CollectiveChoice;
struct Fabric;
}  // namespace ingot::cost

namespace ingot::comm {

using tensor::TensorView;

struct CallOptions {
  std::chrono::milliseconds timeout{30000};  // warned of after it, given up after twice as long
  int instruction = -1;                      // id of the program's instruction, -1 outside a step
  const char* what = "";                     // "gradients of layer 12"
};

// A message that was posted; of the communicator that gave it.
struct Ticket {
  int32_t index = -1;
};

// "all_reduce #88 (gradients of layer 12, 50 MiB)"
std::string describe_call(std::string_view operation, int64_t bytes, const CallOptions& options);

// Of one rank; used by one thread at a time. Views are borrowed for the call; the members' shapes must agree.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int size() const = 0;
  virtual int index() const = 0;  // of this rank in the group

  // The sum in a fixed order, which is a function of operation, group and size: the same bits on every member
  // and from run to run. f64 stays f64, integers are exact, other types add in float32 and round once. `out`
  // may be `in`.
  virtual Result<void> all_reduce(const TensorView& in, const TensorView& out,
                                  const CallOptions& options) = 0;
  // Member i gets part i along `dim` of the sum. Of `in` and `out` only a member's own part may overlap, and
  // exactly.
  virtual Result<void> reduce_scatter(const TensorView& in, const TensorView& out, int dim,
                                      const CallOptions& options) = 0;
  // Parts in index order along `dim`. Of `in` and `out` only a member's own part may overlap, and exactly.
  virtual Result<void> all_gather(const TensorView& in, const TensorView& out, int dim,
                                  const CallOptions& options) = 0;
  // Rows go from member to member, a row being what one index of the first dimension holds. `in` begins with
  // the sent_rows[0] rows for member 0, then those for member 1, ...; `out` gets received_rows[0] rows of
  // member 0 first, and so on; each count must be what the other member says, and both tensors hold just
  // these rows. They may not overlap.
  virtual Result<void> all_to_all(const TensorView& in, std::span<const int64_t> sent_rows,
                                  const TensorView& out, std::span<const int64_t> received_rows,
                                  const CallOptions& options) = 0;
  virtual Result<void> broadcast(const TensorView& inout, int root, const CallOptions& options) = 0;
  // Messages from member to member; those of one (from, to, tag) arrive in the order in which they were
  // posted. A posted message goes on without this thread; its memory is the call's until wait() of its ticket
  // returns: then a sent tensor may be overwritten, a received one read. Every ticket is waited for once, in
  // any order. At most kMessagesInFlight of one (from, to, tag) wait to be received; the next send may wait
  // for room. A sent message of more than kBufferedBytes may be done only when it is being received. Tags are
  // 0 to kMaxTag.
  virtual Result<Ticket> post_send(const TensorView& in, int to, int tag, const CallOptions& options) = 0;
  virtual Result<Ticket> post_receive(const TensorView& out, int from, int tag,
                                      const CallOptions& options) = 0;
  virtual Result<void> wait(Ticket ticket, const CallOptions& options) = 0;
  Result<void> send(const TensorView& in, int to, int tag, const CallOptions& options);
  Result<void> receive(const TensorView& out, int from, int tag, const CallOptions& options);
  virtual Result<void> barrier(const CallOptions& options) = 0;
  // How such a call would run here, with its predicted time; null where no schedule runs it (the operands of
  // ranks of one process are summed where they lie). Valid as long as the communicator.
  virtual const cost::CollectiveChoice* planned(const cost::CollectiveCall& call, tensor::DType dtype) {
    static_cast<void>(call), static_cast<void>(dtype);
    return nullptr;
  }
};

inline constexpr int kMessagesInFlight = 64, kMaxTag = 4095;
inline constexpr int64_t kBufferedBytes = 4096;

// One rank's side of a transport: its place in the world and a communicator for each group of axes.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // All members of the group make their communicators in the same order; each call makes a group of its own,
  // whose messages never mix with another's. Errors: a mesh whose world is not this one.
  virtual Result<std::unique_ptr<Communicator>> group(const graph::Mesh& mesh, graph::AxisMask axes) = 0;
  // The same for the ranks of a list, in its order, this rank among them. Any two ranks make the groups of
  // lists in which both are in the same order.
  virtual Result<std::unique_ptr<Communicator>> group(std::span<const int> ranks) = 0;
  // Called with one sentence when a call has lasted its limit, by any thread that waits; nobody listens until
  // it is set. Before the first group.
  virtual void on_warning(std::function<void(const std::string&)> listener) = 0;
  // Where the rank says what it is doing; null where nobody watches.
  virtual ProgressPage* page() { return nullptr; }
  // What messages cost here: collectives choose their algorithms by it. All ranks call it together, before
  // their groups are used; rank 0's fabric holds for all. Without it cost::Fabric's defaults hold, and all
  // ranks are taken to share a node.
  virtual Result<void> use_fabric(const cost::Fabric& fabric, const CallOptions& options) = 0;
  // Of all ranks: equal numbers share a node. As use_fabric() found them; empty: all do.
  virtual std::span<const int> nodes() const { return {}; }
  // For measurements: from now on calls run as `choice` says where it applies; null: as they choose.
  virtual void prescribe(const cost::CollectiveChoice* choice) { static_cast<void>(choice); }
  // Once, after the last call of every group: waits for all ranks and closes connections in order. A rank
  // that goes without it breaks the connections of those that are still there. Not after an error.
  virtual Result<void> leave(const CallOptions& options) = 0;
};

// Ranks as threads of this process; one Transport per rank, all made together. The transport of one rank is a
// world of 1. Messages go from memory to memory as late as may be, when one side waits; or early, as soon as
// both have posted: proofs run both.
std::vector<std::unique_ptr<Transport>> make_local_world(int ranks, bool early_messages = false);

struct JoinOptions {
  std::chrono::milliseconds limit{120000};  // for all ranks to meet
  ProgressPage* page = nullptr;             // Transport::page(), borrowed
  uint32_t generation = 0;                  // how often this world was joined before
};

// Rows: name, one line of help, how a process joins the world as one rank, and why it cannot be had here
// (empty when it can). `address` is where ranks meet: "host:port" on which rank 0 listens, or a path with a
// '/' in it for ranks of one node; mpi needs none, since mpirun has brought them together.
struct TransportRow {
  std::string_view name, summary;
  Result<std::unique_ptr<Transport>> (*join)(int rank, int world, const std::string& address,
                                             const JoinOptions& options);
  std::string (*unavailable)();
};
std::span<const TransportRow> all_transports();
// Errors: unknown name (all names listed), unavailable (with the reason), what join() reports: ranks that do
// not come or do not fit are named (kFault).
Result<std::unique_ptr<Transport>> join_world(std::string_view transport, int rank, int world,
                                              const std::string& address, const JoinOptions& options = {});

}  // namespace ingot::comm
