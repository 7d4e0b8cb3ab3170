#pragma once
// A backend: kernels by operation, and the memory they work on. Not here: what to run and where bytes lie
// (graph), and when (runtime). To add one: a folder backend/<name>/, a Target in graph/targets/<name>.cc and
// a row in backends.cc. Vendor backends are plug-ins behind the C table of plugin.h.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "tensor/tensor.h"

namespace ingot::backend {

using tensor::TensorView;

// What a kernel gets for one execution. Views are valid during the call only.
struct KernelArgs {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const graph::Attributes* attributes = nullptr;
  bool overwrite = false;  // accumulating gradients: write instead of add (first micro-batch); never sums
  int group_index = 0;     // of this rank in attributes->group: slice, and the vocabulary of embed and head
  std::span<std::byte> workspace;  // planned scratch, as much as the Target declared
  ThreadPool* pool = nullptr;
  uint64_t seed = 0;  // of the run: dropout
};

// Runs one operation; must not allocate, block, or keep a pointer.
using Kernel = void (*)(const KernelArgs& args, void* state);

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const graph::Target& target() const = 0;
  // The kernel for a node with these operand types; an error names what is missing. `state` is passed to each
  // call (caches of library primitives) and belongs to the backend. Called once per instruction when a
  // program is bound.
  struct Bound {
    Kernel kernel = nullptr;
    void* state = nullptr;
  };
  virtual Result<Bound> bind(const graph::Graph& graph, const graph::Node& node) = 0;
  // Memory of target().space, zeroed. By default the host's.
  virtual Result<tensor::Buffer> allocate(int64_t bytes) { return tensor::Buffer::allocate(bytes); }
  // Called once on each thread of the pool that will run the kernels.
  virtual void prepare_thread() {}
};

// Rows: name, one line of help, factory, and why it cannot be had here (empty when it can).
struct BackendRow {
  std::string_view name, summary;
  Result<std::unique_ptr<Backend>> (*make)();
  std::string (*unavailable)();
};
std::span<const BackendRow> all_backends();
Result<std::unique_ptr<Backend>> make_backend(std::string_view name);

}  // namespace ingot::backend
