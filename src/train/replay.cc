#include "train/replay.h"

#include <cstring>

namespace ingot::train {
namespace {

// Sentences about tensors of `session` that differ from those saved.
Result<std::vector<std::string>> compare(Session& session, const checkpoint::Checkpoint& saved) {
  std::vector<std::string> differences;
  for (const std::string group : {"model", "optimizer"}) {
    INGOT_TRY(std::vector<checkpoint::NamedTensor> tensors, saved.tensors(group));
    std::vector<std::vector<float>> memory;
    memory.reserve(tensors.size());
    for (checkpoint::NamedTensor& tensor : tensors) {
      tensor.view.data = memory.emplace_back(static_cast<size_t>(tensor.view.elements())).data();
    }
    INGOT_TRY_VOID(saved.read(group, tensors));
    for (const Weights::Tensor& own : session.weights().tensors()) {
      if ((own.kind == "param") != (group == "model")) continue;
      const std::string name = own.kind == "param" ? own.parameter : own.kind + "." + own.parameter;
      std::vector<float> values(static_cast<size_t>(own.definition->logical.elements()));
      session.weights().gather(own, 0, values);
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].name != name) continue;
        if (std::memcmp(values.data(), memory[i].data(), values.size() * sizeof(float)) != 0)
          differences.push_back(fmt::format("{} differs from {}", name, saved.path()));
      }
    }
  }
  return differences;
}

}  // namespace

Result<std::vector<std::string>> replay(const ResolvedRun& run, const data::TokenStream& stream,
                                        const DataIdentity& identity, const std::string& from,
                                        const std::string& to) {
  INGOT_TRY(RunPrograms programs, compile_programs(run));
  INGOT_TRY(const std::unique_ptr<Session> session, Session::create(run, std::move(programs)));
  session->initialise();
  INGOT_TRY(const checkpoint::Checkpoint begin, checkpoint::Checkpoint::open(from));
  INGOT_TRY(const checkpoint::Checkpoint end, checkpoint::Checkpoint::open(to));
  INGOT_TRY(const Progress progress, load_session(*session, begin, identity));
  INGOT_TRY_VOID(session->start_data(stream, progress.step, nullptr));
  for (int64_t step = progress.step; step < end.state().step; ++step) {
    INGOT_TRY([[maybe_unused]] const StepOutcome outcome, session->step(step, {}));
  }
  return compare(*session, end);
}

}  // namespace ingot::train
