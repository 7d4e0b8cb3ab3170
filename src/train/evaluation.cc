#include "train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "data/batch.h"
#include "graph/ops.h"
#include "train/batch_views.h"

namespace ingot::train {

double bits_per_byte(const data::TokenStream& stream, double loss) {
  if (stream.text_bytes() == 0) return 0;
  return loss / std::log(2.0) * static_cast<double>(stream.tokens()) /
         static_cast<double>(stream.text_bytes());
}

Result<Evaluation> evaluate_stream(const EvaluationInputs& inputs, const data::TokenStream& stream,
                                   int64_t max_tokens) {
  const int64_t batch = inputs.batch, seq_len = inputs.seq_len;
  int64_t samples = stream.samples(seq_len);
  if (max_tokens >= 0) samples = std::min(samples, std::max<int64_t>(1, max_tokens / seq_len));
  if (samples <= 0)
    return invalid(
        fmt::format("the evaluation data has {}, fewer than data.seq_len = {} + 1; give more of it",
                    counted(stream.tokens(), "token"), seq_len));
  const int replicas = inputs.mesh.group_size(graph::kDpMask);
  const data::Sampler order = data::Sampler::sequential(stream.samples(seq_len));
  double loss = 0, tokens = 0;
  for (int64_t first = 0; first < samples; first += batch * replicas) {
    INGOT_TRY_VOID(inputs.team->each([&](Rank& rank) -> Result<void> {
      runtime::Executor& executor = inputs.executor(rank.index);
      const data::Slice slice = slice_of(inputs.mesh, rank.rank, seq_len);
      data::BatchFiller filler(stream, order, slice);
      const int64_t own = first + batch * inputs.mesh.index(rank.rank, graph::kDpMask);
      const data::BatchRequest request{.first_sample = own,
                                       .rows = std::clamp<int64_t>(samples - own, 0, batch),
                                       .document_mask = inputs.document_mask};
      INGOT_TRY_VOID(filler.fill(request, batch_views(executor, 0, batch, slice.width())[0]));
      INGOT_TRY([[maybe_unused]] const runtime::StepTiming timing, executor.run_step(0));
      return {};
    }));
    const tensor::TensorView scalars = inputs.team->rank(0).state.find("control.scalars");
    const double counted = scalars.as<double>()[graph::kLastTokens];
    loss += scalars.as<double>()[graph::kLastLoss] * counted;
    tokens += counted;
  }
  return Evaluation{loss / tokens, static_cast<int64_t>(tokens)};
}

}  // namespace ingot::train
