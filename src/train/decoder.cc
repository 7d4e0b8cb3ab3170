#include "train/decoder.h"

#include <algorithm>

#include "graph/compile.h"
#include "model/model.h"
#include "tensor/half.h"
#include "train/checkpointing.h"

namespace ingot::train {
namespace {

constexpr int64_t kBlock = 16;

Result<graph::Program> compile_decode(const DecoderOptions& options, int64_t tokens) {
  const graph::BuildOptions build{
      .purpose = graph::Purpose::kDecode, .batch = 1, .sequence = tokens, .cache = options.cache};
  INGOT_TRY(graph::Graph graph, model::build_graph(options.model, build));
  graph::CompileOptions compile;
  compile.threads = RankTeam::threads_of(1, options.threads);
  compile.purpose = graph::Purpose::kDecode;
  compile.precision = options.precision;
  compile.targets = {graph::find_target(options.backend)};
  return graph::compile(std::move(graph), compile);
}

// The last row of the logits as float32.
void last_row(const tensor::TensorView& logits, std::span<float> out) {
  const int64_t first = logits.elements() - logits.shape.last();
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t at = first + static_cast<int64_t>(i);
    switch (logits.dtype) {
      case tensor::DType::kF64:
        out[i] = static_cast<float>(logits.as<double>()[at]);
        break;
      case tensor::DType::kBF16:
        out[i] = tensor::float_of_bf16(logits.as<uint16_t>()[at]);
        break;
      default:
        out[i] = logits.as<float>()[at];
    }
  }
}

}  // namespace

Decoder::~Decoder() = default;

Result<std::unique_ptr<Decoder>> Decoder::create(const DecoderOptions& options) {
  std::unique_ptr<Decoder> decoder(new Decoder());
  decoder->options_ = options;
  if (decoder->options_.cache <= 0) decoder->options_.cache = options.model.max_positions;
  if (options.model.family == "gpt2")
    decoder->options_.cache = std::min(decoder->options_.cache, options.model.max_positions);
  INGOT_TRY(decoder->block_program_, compile_decode(decoder->options_, kBlock));
  INGOT_TRY(decoder->single_program_, compile_decode(decoder->options_, 1));
  INGOT_TRY(decoder->team_, RankTeam::create(1, options.threads, options.backend));
  Rank& rank = decoder->team_->rank(0);
  runtime::ExecutorOptions executor;
  executor.pool = rank.pool.get();
  INGOT_TRY_VOID(rank.state.reserve(decoder->block_program_));
  INGOT_TRY_VOID(rank.state.reserve(decoder->single_program_));
  INGOT_TRY(decoder->block_, runtime::Executor::create(decoder->block_program_, rank.state,
                                                       {rank.backend.get()}, *rank.transport, executor));
  INGOT_TRY(decoder->single_, runtime::Executor::create(decoder->single_program_, rank.state,
                                                        {rank.backend.get()}, *rank.transport, executor));
  decoder->weights_ = std::make_unique<Weights>(
      *decoder->team_, std::vector<const graph::Program*>{&decoder->single_program_});
  decoder->logits_.resize(static_cast<size_t>(options.model.vocab_size));
  return decoder;
}

Result<void> Decoder::run(runtime::Executor& executor, std::span<const int32_t> tokens) {
  const tensor::TensorView ids = executor.input("batch.tokens", 0);
  const tensor::TensorView position = executor.input("batch.position", 0);
  const tensor::TensorView doc_start = executor.input("batch.doc_start", 0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    ids.as<int32_t>()[i] = tokens[i];
    position.as<int32_t>()[i] = static_cast<int32_t>(position_) + static_cast<int32_t>(i);
    if (doc_start.data != nullptr) doc_start.as<int32_t>()[i] = 0;
  }
  INGOT_TRY([[maybe_unused]] const runtime::StepTiming timing, executor.run_step(0));
  position_ += static_cast<int64_t>(tokens.size());
  last_row(executor.step_buffer("logits"), logits_);
  return {};
}

Result<std::span<const float>> Decoder::feed(std::span<const int32_t> tokens) {
  INGOT_CHECK(!tokens.empty(), "feed() of no token");
  if (position_ + static_cast<int64_t>(tokens.size()) > options_.cache)
    return invalid(fmt::format("the sequence would have {} tokens; this model's limit is {}",
                               position_ + static_cast<int64_t>(tokens.size()), options_.cache));
  for (const int32_t id : tokens) {
    if (id < 0 || id >= options_.model.vocab_size)
      return invalid(fmt::format("token {} is outside the vocabulary of {}", id, options_.model.vocab_size));
  }
  while (static_cast<int64_t>(tokens.size()) >= kBlock) {
    INGOT_TRY_VOID(run(*block_, tokens.first(kBlock)));
    tokens = tokens.subspan(kBlock);
  }
  for (size_t i = 0; i < tokens.size(); ++i) INGOT_TRY_VOID(run(*single_, tokens.subspan(i, 1)));
  return std::span<const float>(logits_);
}

Result<void> load_parameters(Weights& weights, const checkpoint::Checkpoint& saved) {
  INGOT_TRY_VOID(saved.read("model", tensor_groups(weights, 0, false)[0].tensors));
  weights.touch();
  return {};
}

}  // namespace ingot::train
