#include "train/replay.h"

#include <cstring>

namespace ingot::train {
namespace {

// Sentences about tensors of `session` that differ from those saved.
Result<std::vector<std::string>> compare(Session& session, const checkpoint::Checkpoint& saved) {
  std::vector<std::string> differences;
  for (int i = 0; i < session.team().size(); ++i) {
    for (const checkpoint::TensorGroup& group : tensor_groups(session.weights(), i, true)) {
      for (const checkpoint::NamedTensor& own : group.tensors) {
        std::vector<std::byte> bytes(static_cast<size_t>(own.view.bytes()));
        checkpoint::NamedTensor copy = own;
        copy.view.data = bytes.data();
        INGOT_TRY_VOID(saved.read_some(group.name, {&copy, 1}));
        std::string sentence = fmt::format("{} differs from {}", own.name, saved.path());
        const bool same = std::memcmp(bytes.data(), own.view.data, bytes.size()) == 0;
        if (!same && (differences.empty() || differences.back() != sentence))
          differences.push_back(std::move(sentence));
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
