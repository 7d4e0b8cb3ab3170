#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "runtime/arena_guard.h"
#include "runtime/bound.h"
#include "runtime/streams.h"
#include "runtime/transfers.h"
#include "tensor/half.h"

namespace ingot::runtime {
namespace {

using graph::Invocation;

size_t index(int i) { return static_cast<size_t>(i); }

bool is_input(std::string_view buffer, std::string_view name) {
  constexpr std::string_view kBatch = "batch.";
  return buffer == name || (buffer.starts_with(kBatch) && buffer.substr(kBatch.size()) == name);
}

bool all_finite(const TensorView& view) {
  const int64_t count = view.elements();
  switch (view.dtype) {
    case tensor::DType::kF64:
      return std::all_of(view.as<double>(), view.as<double>() + count,
                         [](double x) { return std::isfinite(x); });
    case tensor::DType::kF32:
      return std::all_of(view.as<float>(), view.as<float>() + count,
                         [](float x) { return std::isfinite(x); });
    case tensor::DType::kBF16:  // an exponent of all ones
      return std::all_of(view.as<uint16_t>(), view.as<uint16_t>() + count,
                         [](uint16_t x) { return (x & 0x7f80U) != 0x7f80U; });
    case tensor::DType::kF16:
      return std::all_of(view.as<uint16_t>(), view.as<uint16_t>() + count,
                         [](uint16_t x) { return (x & 0x7c00U) != 0x7c00U; });
    default:
      return true;
  }
}

}  // namespace

struct Executor::Impl {
  class ClosedMemory;
  graph::Program program;
  State& state;
  comm::Transport& transport;
  ExecutorOptions options;
  Memory memory;
  BoundProgram bound;
  Observer observer;
  std::mutex observing;
  Invocation begin{};    // of the begin segment, which is not in the timeline
  bool updates = false;  // the finish segment changes parameters

  // Asynchronous instructions that have not been waited for, in order of issue.
  std::vector<Issued> pending;
  std::optional<Transfers> transfers;
  // For each entry of the timeline and slot class: nobody reads the slot after it.
  std::vector<std::array<bool, graph::kSlotClasses>> frees;
  std::atomic<int64_t> communication_ns{0};
  int64_t exposed_ns = 0;       // of communication, on the thread that runs the step
  NonFinite* search = nullptr;  // where find_non_finite wants its answer

  // Of asynchronous streams that run beside compute; their kernels have a pool of one thread for each. Ended
  // before all that their jobs use.
  std::array<std::unique_ptr<ThreadPool>, graph::kStreamCount> stream_pools;
  std::array<std::unique_ptr<StreamThread>, graph::kStreamCount> streams;

  Impl(const graph::Program& p, State& s, comm::Transport& t, const ExecutorOptions& o)
      : program(p), state(s), transport(t), options(o) {}

  const graph::StageCode& code() const { return *program.code; }

  void prepare();
  Result<void> run_begin();
  Result<void> run_timeline(int side, bool finish);
  Result<void> run_transfers(size_t position);
  void add_requests(int side);
  Result<void> run_segment(const Invocation& invocation, int side, size_t position);
  Result<void> issue(const BoundInstruction& bound, const Invocation& invocation, const Bases& bases);
  Result<void> execute(Issued& issued, Part part, ThreadPool* pool);
  Result<void> run_here(Issued& issued, Part part);
  void start_streams();
  StreamThread* thread_of(const BoundInstruction& bound) const;
  Result<void> perform(const BoundInstruction& bound, const Invocation& invocation, ThreadPool* pool);
  Result<void> shift(Issued& issued, Part part);
  comm::CallOptions call_options(const BoundInstruction& bound) const;
  Result<void> finish_pending(const std::vector<int>& ids);
  Result<void> finish_until(size_t last);
  Result<void> finish_stream(graph::Stream stream);
  Result<void> finish_all();
  Bases bases_of(const Invocation& invocation, int side) const;
  template <class Visit>
  void visit_memory(int side, const Visit& visit) const;
  template <class Visit>
  void visit_operands(const BoundInstruction& bound, const Visit& visit) const;
  void check_outputs(const BoundInstruction& bound, const Invocation& invocation);
};

// A thread for each stream that has something to run beside compute. Messages need none: they go on by
// themselves once they are posted.
void Executor::Impl::start_streams() {
  if (options.overlap != Overlap::kBeside || kMemoryCloses) return;
  std::array<bool, graph::kStreamCount> wanted{}, messages{};
  for (BoundSegment& segment : bound.segments) {
    for (size_t i = 0; i < segment.instructions.size(); ++i) {
      BoundInstruction& own = segment.instructions[i];
      if (!own.asynchronous) continue;
      const bool last = i + 1 == segment.instructions.size();
      const std::vector<int>& next =
          last ? segment.segment->joins : segment.instructions[i + 1].instruction->waits;
      own.awaited_at_once = std::ranges::find(next, own.instruction->id) != next.end();
      const auto stream = static_cast<size_t>(own.node->stream);
      messages[stream] = messages[stream] || own.action == Action::kRingShift;
      wanted[stream] = wanted[stream] || !own.awaited_at_once;
    }
  }
  for (size_t stream = 0; stream < graph::kStreamCount; ++stream) {
    if (!wanted[stream] || messages[stream]) continue;
    stream_pools[stream] = std::make_unique<ThreadPool>(1);
    streams[stream] = std::make_unique<StreamThread>(
        [this, stream](Issued& job) { return execute(job, Part::kAll, stream_pools[stream].get()); });
  }
}

// Null where it runs on the thread of the step.
StreamThread* Executor::Impl::thread_of(const BoundInstruction& instruction) const {
  return search != nullptr ? nullptr : streams[static_cast<size_t>(instruction.node->stream)].get();
}

void Executor::Impl::prepare() {
  pending.reserve(64);
  start_streams();
  begin.segment = program.begin_segment;
  begin.first = begin.last = true;
  begin.slot.fill(-1);
  if (program.finish_segment >= 0) {
    for (const BoundInstruction& bound_instruction :
         bound.segments[index(program.finish_segment)].instructions)
      updates = updates || bound_instruction.node->op == graph::Op::kAdamW;
  }
  if (options.poison)
    for (const tensor::Buffer& slots : memory.slots) poison(slots.data(), slots.bytes());
  transfers.emplace(program, bound.transfers, options,
                    [this](const Invocation& invocation, const graph::Instruction& instruction,
                           int64_t begin_ns, int64_t end_ns) {
                      if (!observer) return;
                      const std::lock_guard lock(observing);
                      observer(invocation, instruction, begin_ns, end_ns);
                    });
  frees = transfers->freed_slots();
}

// All that instructions work on, as (address, bytes), but for the side of the inputs that is being filled.
// With what lies behind: kernels that read past the last operand would read past others too.
template <class Visit>
void Executor::Impl::visit_memory(int side, const Visit& visit) const {
  constexpr int64_t kTail = 64;  // of a tensor::Buffer
  const auto visit_area = [&](const std::byte* at, int64_t bytes) {
    if (at != nullptr) visit(at, bytes + kTail);
  };
  for (size_t i = 0; i < code().buffers.size(); ++i) visit_area(memory.buffers[i], code().buffers[i].bytes());
  for (const tensor::Buffer* area : {&memory.input[index(side)], &memory.scratch, &memory.staging})
    visit_area(area->data(), area->bytes());
  for (const tensor::Buffer& slots : memory.slots) visit_area(slots.data(), slots.bytes());
}

template <class Visit>
void Executor::Impl::visit_operands(const BoundInstruction& instruction, const Visit& visit) const {
  const size_t end = instruction.first + instruction.inputs + instruction.outputs;
  for (size_t i = instruction.first; i < end; ++i) visit(bound.views[i].data, bound.views[i].bytes());
  visit(instruction.workspace.data(), static_cast<int64_t>(instruction.workspace.size()));
}

// While it lives, an instruction reaches its operands and its workspace and nothing else: a proof of the plan
// and of the kernels where the build has the address sanitizer.
class Executor::Impl::ClosedMemory {
 public:
  ClosedMemory(const Impl& impl, int side) : impl_(impl), side_(side) {
    if (kMemoryCloses) impl_.visit_memory(side_, close_memory);
  }
  ~ClosedMemory() {
    if (kMemoryCloses) impl_.visit_memory(side_, open_memory);
  }
  ClosedMemory(const ClosedMemory&) = delete;
  ClosedMemory& operator=(const ClosedMemory&) = delete;

 private:
  const Impl& impl_;
  int side_;
};

Bases Executor::Impl::bases_of(const Invocation& invocation, int side) const {
  Bases bases;
  bases.micro_batch = invocation.micro_batch;
  bases.at[kInputBase] = reinterpret_cast<uintptr_t>(memory.input[index(side)].data());
  for (size_t c = 0; c < graph::kSlotClasses; ++c) {
    if (invocation.slot[c] < 0) continue;
    bases.at[kFirstSlotBase + c] = reinterpret_cast<uintptr_t>(memory.slots[c].data()) +
                                   static_cast<uintptr_t>(program.pools[c].slot_bytes * invocation.slot[c]);
  }
  return bases;
}

Result<void> Executor::Impl::run_begin() {
  if (program.begin_segment < 0) return {};
  bool stale = false;
  for (const graph::BufferPlan& plan : code().buffers)
    if (plan.space == graph::Space::kDerived)
      stale = stale || state.slots_.find(plan.name)->second.derived_version != state.version_;
  if (!stale) return {};
  INGOT_TRY_VOID(run_segment(begin, 0, program.timeline.size()));
  INGOT_TRY_VOID(finish_all());
  for (const graph::BufferPlan& plan : code().buffers)
    if (plan.space == graph::Space::kDerived)
      state.slots_.find(plan.name)->second.derived_version = state.version_;
  return {};
}

Result<void> Executor::Impl::run_timeline(int side, bool finish) {
  transfers->begin_timeline();
  for (size_t position = 0; position < program.timeline.size(); ++position) {
    const Invocation& invocation = program.timeline[position];
    INGOT_TRY_VOID(run_transfers(position));
    if (invocation.segment == program.finish_segment) {
      if (!finish) continue;
      add_requests(side);
    }
    INGOT_TRY_VOID(run_segment(invocation, side, position));
  }
  INGOT_TRY_VOID(run_transfers(program.timeline.size()));
  return finish_all();
}

Result<void> Executor::Impl::run_transfers(size_t position) {
  const int64_t before = transfers->waited_ns();
  INGOT_TRY_VOID(transfers->run(static_cast<int>(position)));
  const int64_t waited = transfers->waited_ns() - before;
  communication_ns += waited;
  exposed_ns += waited;
  return {};
}

// This rank's requests join the sums that finish adds over the world. By the host: both blocks are its own
// memory on every target so far.
void Executor::Impl::add_requests(int side) {
  const std::vector<graph::BufferPlan>& plans = code().buffers;
  double* sums = nullptr;
  const double* step = nullptr;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].name == "control.sums") sums = reinterpret_cast<double*>(memory.buffers[i]);
    if (plans[i].name == "control.step")
      step = reinterpret_cast<const double*>(memory.input[index(side)].data() + memory.input_offset[i]);
  }
  if (sums == nullptr || step == nullptr) return;
  constexpr int64_t kBlockBytes = graph::kControlBlock * int64_t{sizeof(double)};
  open_memory(sums, kBlockBytes);
  open_memory(step, kBlockBytes);
  for (int i = 0; i < graph::kRequestCount; ++i) sums[graph::kRequests + i] += step[graph::kOwnRequests + i];
  close_memory(sums, kBlockBytes);
  close_memory(step, kBlockBytes);
}

Result<void> Executor::Impl::run_segment(const Invocation& invocation, int side, size_t position) {
  const BoundSegment& segment = bound.segments[index(invocation.segment)];
  const Bases bases = bases_of(invocation, side);
  if (options.poison) {
    poison_closed(memory.scratch.data(), memory.scratch_bytes);
    poison_closed(memory.staging.data(), memory.staging_bytes);
  }
  for (const BoundInstruction& instruction : segment.instructions) {
    if (!graph::runs(*instruction.node, invocation)) continue;
    INGOT_TRY_VOID(issue(instruction, invocation, bases));
  }
  INGOT_TRY_VOID(finish_pending(segment.segment->joins));
  if (options.poison && position < frees.size()) {
    for (size_t c = 0; c < graph::kSlotClasses; ++c)
      if (frees[position][c])
        poison_closed(reinterpret_cast<std::byte*>(bases.at[kFirstSlotBase + c]),
                      program.pools[c].slot_bytes);
  }
  return {};
}

Result<void> Executor::Impl::issue(const BoundInstruction& instruction, const Invocation& invocation,
                                   const Bases& bases) {
  INGOT_TRY_VOID(finish_pending(instruction.instruction->waits));
  Issued issued{&instruction, &invocation, bases};
  if (!instruction.asynchronous) return run_here(issued, Part::kAll);
  if (StreamThread* const thread = thread_of(instruction); thread != nullptr) {
    if (instruction.awaited_at_once) {  // handing it over would gain nothing
      INGOT_TRY_VOID(finish_stream(instruction.node->stream));
      return run_here(issued, Part::kAll);
    }
    issued.number = thread->issue(issued);
  } else if (options.overlap != Overlap::kLate) {
    if (instruction.action != Action::kRingShift) return run_here(issued, Part::kAll);
    INGOT_TRY_VOID(run_here(issued, Part::kPost));
  }
  pending.push_back(issued);
  return {};
}

// Runs those of `ids` that are outstanding, and what was issued before them on the same stream.
Result<void> Executor::Impl::finish_pending(const std::vector<int>& ids) {
  for (const int id : ids) {
    // Several where earlier micro-batches issued it too: up to the last.
    const auto found = std::find_if(pending.rbegin(), pending.rend(),
                                    [&](const Issued& p) { return p.instruction->instruction->id == id; });
    if (found != pending.rend())
      INGOT_TRY_VOID(finish_until(static_cast<size_t>(pending.rend() - found) - 1));
  }
  return {};
}

Result<void> Executor::Impl::finish_until(size_t last) {
  const graph::Stream stream = pending[last].instruction->node->stream;
  for (auto ahead = std::count_if(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                                  [&](const Issued& p) { return p.instruction->node->stream == stream; });
       ahead > 0; --ahead) {
    const auto next = std::find_if(pending.begin(), pending.end(),
                                   [&](const Issued& p) { return p.instruction->node->stream == stream; });
    Issued now = *next;
    pending.erase(next);
    if (now.number == 0) {
      INGOT_TRY_VOID(run_here(now, now.posted ? Part::kWait : Part::kAll));
      continue;
    }
    const int64_t begin_ns = monotonic_ns();
    INGOT_TRY_VOID(streams[static_cast<size_t>(stream)]->wait(now.number));
    exposed_ns += monotonic_ns() - begin_ns;
  }
  return {};
}

Result<void> Executor::Impl::finish_stream(graph::Stream stream) {
  const auto last = std::find_if(pending.rbegin(), pending.rend(),
                                 [&](const Issued& p) { return p.instruction->node->stream == stream; });
  if (last == pending.rend()) return {};
  return finish_until(static_cast<size_t>(pending.rend() - last) - 1);
}

Result<void> Executor::Impl::finish_all() {
  while (!pending.empty()) INGOT_TRY_VOID(finish_until(0));
  return {};
}

// On the thread that runs the step: what communicates here is exposed.
Result<void> Executor::Impl::run_here(Issued& issued, Part part) {
  const bool communicates = issued.instruction->action != Action::kKernel;
  const int64_t begin_ns = communicates ? monotonic_ns() : 0;
  INGOT_TRY_VOID(execute(issued, part, options.pool));
  if (communicates) exposed_ns += monotonic_ns() - begin_ns;
  return {};
}

Result<void> Executor::Impl::execute(Issued& issued, Part part, ThreadPool* pool) {
  const BoundInstruction& instruction = *issued.instruction;
  const Invocation& invocation = *issued.invocation;
  const Bases& bases = issued.bases;
  const size_t end = instruction.first + instruction.inputs + instruction.outputs;
  for (size_t i = instruction.first; i < end; ++i) {
    const BoundOperand& operand = bound.operands[i];
    bound.views[i].data =
        reinterpret_cast<void*>(bases.at[operand.base] + operand.offset +
                                static_cast<uintptr_t>(operand.micro_batch_bytes * bases.micro_batch));
  }
  if (kMemoryCloses) visit_operands(instruction, open_memory);
  const bool timed = observer || instruction.action != Action::kKernel;
  const int64_t begin_ns = timed ? monotonic_ns() : 0;
  const bool shifts = instruction.action == Action::kRingShift;
  if (auto result = shifts ? shift(issued, part) : perform(instruction, invocation, pool); !result) {
    return std::move(result).take_error().context(
        graph::describe(program, invocation, *instruction.instruction));
  }
  if (timed) {
    const int64_t end_ns = monotonic_ns();
    if (instruction.action != Action::kKernel) communication_ns += end_ns - begin_ns;
    if (observer && part != Part::kPost) {
      const std::lock_guard lock(observing);
      observer(invocation, *instruction.instruction, begin_ns, end_ns);
    }
  }
  if (search != nullptr && part != Part::kPost) check_outputs(instruction, invocation);
  if (kMemoryCloses) visit_operands(instruction, close_memory);
  return {};
}

Result<void> Executor::Impl::perform(const BoundInstruction& instruction, const Invocation& invocation,
                                     ThreadPool* pool) {
  const TensorView* views = bound.views.data() + instruction.first;
  const graph::Attributes& attributes = instruction.node->attributes;
  if (instruction.action == Action::kKernel) {
    if (options.poison)
      poison(instruction.workspace.data(), static_cast<int64_t>(instruction.workspace.size()));
    backend::KernelArgs args;
    args.inputs = {views, instruction.inputs};
    args.outputs = {views + instruction.inputs, instruction.outputs};
    args.attributes = &attributes;
    args.overwrite = instruction.overwrites && invocation.first;
    args.group_index = instruction.group_index;
    args.workspace = instruction.workspace;
    args.pool = pool;
    args.seed = options.seed;
    instruction.kernel.kernel(args, instruction.kernel.state);
    return {};
  }
  const comm::CallOptions call = call_options(instruction);
  const TensorView &in = views[0], &out = views[instruction.inputs];
  switch (instruction.action) {
    case Action::kAllReduce:
      return instruction.group->all_reduce(in, out, call);
    case Action::kAllGather:
      return instruction.group->all_gather(in, out, attributes.dim, call);
    case Action::kAllToAll:
      return instruction.group->all_to_all(in, attributes.sent_rows, out, attributes.received_rows, call);
    default:
      return instruction.group->reduce_scatter(in, out, attributes.dim, call);
  }
}

comm::CallOptions Executor::Impl::call_options(const BoundInstruction& instruction) const {
  comm::CallOptions call;
  call.timeout = options.comm_timeout;
  call.instruction = instruction.instruction->id;
  call.what = instruction.what.c_str();
  return call;
}

// Views of the operands were filled by execute().
Result<void> Executor::Impl::shift(Issued& issued, Part part) {
  const BoundInstruction& instruction = *issued.instruction;
  const TensorView* views = bound.views.data() + instruction.first;
  comm::Communicator& ring = *instruction.group;
  const comm::CallOptions call = call_options(instruction);
  const int next = (ring.index() + 1) % ring.size(), before = (ring.index() + ring.size() - 1) % ring.size();
  INGOT_CHECK(instruction.inputs == instruction.outputs && 2 * instruction.inputs <= kTickets,
              "ring_shift of {} operands", instruction.inputs);
  for (size_t i = 0; part != Part::kWait && i < instruction.inputs; ++i) {
    const int tag = static_cast<int>(i);
    INGOT_TRY(issued.tickets[2 * i], ring.post_receive(views[instruction.inputs + i], before, tag, call));
    INGOT_TRY(issued.tickets[2 * i + 1], ring.post_send(views[i], next, tag, call));
  }
  issued.posted = true;
  for (size_t i = 0; part != Part::kPost && i < 2 * instruction.inputs; ++i)
    INGOT_TRY_VOID(ring.wait(issued.tickets[i], call));
  return {};
}

void Executor::Impl::check_outputs(const BoundInstruction& instruction, const Invocation& invocation) {
  if (search->instruction >= 0) return;
  const TensorView* outputs = bound.views.data() + instruction.first + instruction.inputs;
  for (size_t i = 0; i < instruction.outputs; ++i) {
    if (all_finite(outputs[i])) continue;
    search->instruction = instruction.instruction->id;
    search->where = graph::describe(program, invocation, *instruction.instruction);
    search->micro_batch = invocation.micro_batch;
    const graph::Segment& segment = code().segments[static_cast<size_t>(invocation.segment)];
    const int chunk = segment.chunk * program.layout.mesh.size(graph::Axis::kPp) + program.stage;
    const bool down = segment.phase == graph::Phase::kForward;
    search->turn = down ? chunk : 2 * program.layout.chunks() - chunk;
    return;
  }
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(const graph::Program& program, State& state,
                                                   std::vector<backend::Backend*> backends,
                                                   comm::Transport& transport,
                                                   const ExecutorOptions& options) {
  INGOT_CHECK(!backends.empty() && backends.size() == program.targets.size(),
              "{} backends for a program of {} targets", backends.size(), program.targets.size());
  for (size_t i = 0; i < backends.size(); ++i)
    INGOT_CHECK(backends[i]->target().name == program.targets[i]->name, "backend {} for target {}",
                backends[i]->target().name, program.targets[i]->name);
  if (transport.world() != program.layout.mesh.world()) {
    return invalid(
        fmt::format("the program is for {} ranks, this world has {}: start as many ranks as the layout says",
                    program.layout.mesh.world(), transport.world()));
  }
  INGOT_TRY_VOID(state.reserve(program));
  auto impl = std::make_unique<Impl>(program, state, transport, options);
  INGOT_TRY(impl->memory, allocate_memory(impl->program, state, backends));
  INGOT_TRY(impl->bound, bind_program(impl->program, impl->memory, backends, transport));
  impl->prepare();
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

TensorView Executor::input(const std::string& name, int side) const {
  INGOT_CHECK(side >= 0 && side < graph::kInputSides, "input side {}", side);
  const std::vector<graph::BufferPlan>& plans = impl_->code().buffers;
  for (size_t i = 0; i < plans.size(); ++i) {
    const graph::BufferPlan& plan = plans[i];
    if (plan.space != graph::Space::kInput || !is_input(plan.name, name)) continue;
    std::byte* at = impl_->memory.input[index(side)].data() + impl_->memory.input_offset[i];
    if (plan.micro_batch_elements == 0) return {at, plan.dtype, tensor::Shape{plan.elements}};
    std::array<int64_t, tensor::kMaxRank> extents{};
    const int rank = plan.shape.rank() + 1;
    extents[0] = plan.elements / plan.micro_batch_elements;
    for (int axis = 1; axis < rank; ++axis) extents[index(axis)] = plan.shape[axis - 1];
    return {at, plan.dtype, tensor::Shape(std::span<const int64_t>(extents.data(), index(rank)))};
  }
  return {};
}

int Executor::micro_batches() const { return impl_->program.layout.micro_batches; }

TensorView Executor::step_buffer(const std::string& name) const {
  const std::vector<graph::BufferPlan>& plans = impl_->code().buffers;
  for (size_t i = 0; i < plans.size(); ++i) {
    const graph::BufferPlan& plan = plans[i];
    if (plan.space != graph::Space::kStep || plan.name != name) continue;
    return {impl_->memory.buffers[i], plan.dtype,
            plan.shape.rank() > 0 ? plan.shape : tensor::Shape{plan.elements}};
  }
  return {};
}

Result<StepTiming> Executor::run_step(int side) {
  const int64_t begin_ns = monotonic_ns();
  impl_->communication_ns = 0;
  impl_->exposed_ns = 0;
  const Impl::ClosedMemory closed(*impl_, side);
  INGOT_TRY_VOID(impl_->run_begin());
  INGOT_TRY_VOID(impl_->run_timeline(side, true));
  if (impl_->updates) impl_->state.touch_parameters();
  return StepTiming{monotonic_ns() - begin_ns, impl_->communication_ns, impl_->exposed_ns};
}

Result<NonFinite> Executor::find_non_finite(int side) {
  NonFinite found;
  impl_->search = &found;
  Result<void> result;
  {
    const Impl::ClosedMemory closed(*impl_, side);
    result = impl_->run_begin();
    if (result) result = impl_->run_timeline(side, false);
  }
  impl_->search = nullptr;
  if (!result) return std::move(result).take_error();
  for (const char* name : {"control.sums", "control.parts"}) {
    const TensorView sums = step_buffer(name);
    if (sums.data != nullptr) std::memset(sums.data, 0, static_cast<size_t>(sums.bytes()));
  }
  return found;
}

void Executor::set_observer(Observer observer) { impl_->observer = std::move(observer); }
int64_t Executor::arena_bytes() const { return impl_->memory.total; }
const graph::Program& Executor::program() const { return impl_->program; }

}  // namespace ingot::runtime
