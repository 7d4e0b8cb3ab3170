#pragma once
// Runs programs. State holds what outlives a program (parameters, optimizer, scalars, caches, derived
// copies), bound by buffer name; an Executor binds one program on one rank and runs its steps. Not here: what
// a step is (graph), kernels (backend), when to stop (train).

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"
#include "graph/program.h"

namespace ingot::runtime {

// Named persistent tensors of one rank. Owned by the run; outlives the executors over it. Not thread-safe.
class State {
 public:
  // Makes the state and derived buffers of `program` that are not there yet, zeroed. Errors: not enough
  // memory; a buffer of that name with another size or dtype (both are named).
  Result<void> reserve(const graph::Program& program);
  tensor::TensorView find(const std::string& buffer) const;  // data null when absent
  // What `rank`, whose state this is, holds of a parameter in a bucketed buffer: all of the stored part, in
  // its shape; or, where ZeRO cuts the buffer, the `view.elements()` consecutive elements of it from `first`
  // on, in shape [elements]. Parameters of which it holds nothing have no entry.
  struct Entry {
    std::string parameter;  // "h.0.attn.q.weight"
    int index = -1;         // of the parameter in the program's graphs
    std::string kind;       // "param", "exp_avg", "exp_avg_sq"
    tensor::TensorView view;
    int64_t first = 0;
  };
  std::vector<Entry> entries(const graph::Program& program, int rank) const;
  int64_t bytes() const;
  // Fills the scalars of a fresh run: the loss scale (1 where it is fixed), everything else 0. After
  // reserve() of a program that has them.
  void start_scalars(double loss_scale);
  // Parameters changed (update, load): derived copies made before are stale.
  void touch_parameters() { ++version_; }
  uint64_t version() const { return version_; }

 private:
  friend class Executor;
  struct Slot {
    tensor::Buffer memory;
    tensor::TensorView view;
    uint64_t derived_version = 0;  // version() from which this derived copy was made, 0: never
  };
  std::map<std::string, Slot> slots_;
  uint64_t version_ = 1;
};

struct StepTiming {
  int64_t step_ns = 0;
  int64_t communication_ns = 0;          // all of it, wherever it ran
  int64_t exposed_communication_ns = 0;  // that compute waited for
};

struct NonFinite {  // the first instruction that made one
  int instruction = -1;
  std::string where;  // describe() of it
  // How far its micro-batch had come: down the chunks of the model and up again. What came first has, of all
  // ranks, the least (micro_batch, turn).
  int micro_batch = 0, turn = 0;
};

// When asynchronous instructions run: as early as the plan allows, as late, or beside compute on a thread of
// their stream. The first two prove plans: where a build closes memory that an instruction may not touch
// (arena_guard.h), kBeside is kEarly.
enum class Overlap : uint8_t { kEarly, kLate, kBeside };

struct ExecutorOptions {
  ThreadPool* pool = nullptr;
  uint64_t seed = 0;
  Overlap overlap = Overlap::kEarly;
  bool poison = false;  // fill scratch, workspaces and freed slots with NaN (dev)
  std::chrono::milliseconds comm_timeout{30000};
};

// Called after every instruction when set, by one thread at a time: trace, profile. An asynchronous one is
// reported with the invocation that issued it, when it has ended; a send or receive between stages with the
// one that made or reads its value, when it was waited for.
using Observer = std::function<void(const graph::Invocation&, const graph::Instruction&, int64_t begin_ns,
                                    int64_t end_ns)>;

class Executor {
 public:
  // Binds operands to addresses, kernels and groups. `backends` in the order of program.targets; all
  // borrowed, and the program's code is kept. All ranks of the world create their executors in the same
  // order. Errors: no memory, no kernel for an instruction, an operand in a memory space that its backend
  // cannot read, a world of another size.
  static Result<std::unique_ptr<Executor>> create(const graph::Program& program, State& state,
                                                  std::vector<backend::Backend*> backends,
                                                  comm::Transport& transport, const ExecutorOptions& options);
  ~Executor();

  // Input buffers: `side` is 0 or 1; batch fields are [m, ...] over the step's micro-batches, the step block
  // is [16]. The "batch." of a name may be left out. Data null when the program reads no such field.
  tensor::TensorView input(const std::string& name, int side) const;
  int micro_batches() const;
  // A buffer of this program alone: "grad.3", "control.sums", in decoding "logits". Data null when absent.
  tensor::TensorView step_buffer(const std::string& name) const;
  // Runs one step on the inputs of `side`: begin if stale, timeline, finish. Allocates nothing. The first
  // error ends it, told with describe() of its instruction; the executor cannot be used after one.
  Result<StepTiming> run_step(int side);
  // Runs the timeline once more without finish, checking every output after every instruction (replay after a
  // non-finite norm). Sums are left zero, as after a skipped step. All ranks must call it together. Nothing
  // found: instruction -1.
  Result<NonFinite> find_non_finite(int side);

  void set_observer(Observer observer);
  int64_t arena_bytes() const;  // step, input, slots and scratch
  const graph::Program& program() const;

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::runtime
