#pragma once
// Messages between ranks. A Communicator is one rank's handle on one group; all members call the same operations in the
// same order. Every call has a time limit and carries the id of the instruction that makes it and a sequence number, so
// that a hang can be told in one sentence. To add a transport: a folder comm/<name>/ and a row in transports.cc.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/mesh.h"
#include "tensor/tensor.h"

namespace ingot::comm {

using tensor::TensorView;

struct CallOptions {
  std::chrono::milliseconds timeout{30000};
  int instruction = -1;          // id of the program's instruction, -1 outside a step
  const char* what = "";         // "gradients of layer 12"
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int size() const = 0;
  virtual int index() const = 0;     // of this rank in the group

  // Sums in index order ((0 + 1) + 2) ..., the same bits on every member; f64 stays f64, others add in float32.
  virtual Result<void> all_reduce(const TensorView& in, const TensorView& out, const CallOptions& options) = 0;
  // Member i gets part i along `dim` of the sum.
  virtual Result<void> reduce_scatter(const TensorView& in, const TensorView& out, int dim, const CallOptions& options) = 0;
  // Parts in index order along `dim`.
  virtual Result<void> all_gather(const TensorView& in, const TensorView& out, int dim, const CallOptions& options) = 0;
  virtual Result<void> broadcast(const TensorView& inout, int root, const CallOptions& options) = 0;
  virtual Result<void> send(const TensorView& in, int to, int tag, const CallOptions& options) = 0;
  virtual Result<void> receive(const TensorView& out, int from, int tag, const CallOptions& options) = 0;
  virtual Result<void> barrier(const CallOptions& options) = 0;
};

// One rank's side of a transport: its place in the world and a communicator for each group of axes.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual Result<std::unique_ptr<Communicator>> group(const graph::Mesh& mesh, graph::AxisMask axes) = 0;
};

// Ranks as threads of this process; one Transport per rank, all made together. The transport of one rank is a world of 1.
std::vector<std::unique_ptr<Transport>> make_local_world(int ranks);

}  // namespace ingot::comm
