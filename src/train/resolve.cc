#include "train/resolve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/counted.h"
#include "cost/flops.h"

namespace ingot::train {
namespace {

// Efficiencies measured on two cores of Zen 4 (bench/shape_bench), the last two taken from the row before.
constexpr std::array<ShapeRow, 9> kShapes = {{
    {2, 64, 2, 0.50},
    {4, 128, 4, 0.65},
    {4, 192, 6, 0.75},
    {6, 256, 8, 0.75},
    {6, 384, 6, 0.85},
    {8, 512, 8, 0.85},
    {12, 768, 12, 0.90},
    {16, 1024, 16, 0.90},
    {24, 1536, 24, 0.90},
}};

constexpr int64_t kAutoSeqLen = 256;
constexpr int64_t kMicroBatchTokens = 4096;  // rows enough for full tiles, few enough for caches and memory
constexpr int64_t kMostMicroBatches = 4096;
constexpr int64_t kTurnsOfAPipeline = 4;  // micro-batches for each stage: a fifth of a step waits at most
constexpr int64_t kLargestCpuHead = 128;  // backend/cpu/kernels/attention.h
constexpr int64_t kFewestWarmupSteps = 20;
constexpr double kBudgetShare = 0.9;        // of a time budget that steps may take
constexpr double kIrreducibleLoss = 1.869;  // of ranking_loss

int64_t seq_len_of(const spec::LoadedSpec& loaded, bool sized) {
  return sized || loaded.is_set("data.seq_len") ? loaded.spec.data.seq_len : kAutoSeqLen;
}

double budget_seconds(const spec::RunSpec& spec) {
  return spec.train.max_time.value_or(kDefaultMaxTimeSeconds);
}

bool has_step_budget(const spec::RunSpec& spec) { return spec.train.train_steps || spec.train.train_tokens; }

struct ShapeChoice {
  spec::ModelSpec model;
  double tokens = 0;
  double loss = 0;  // ranking_loss
};

spec::ModelSpec shaped(const spec::ModelSpec& base, const ShapeRow& row, int64_t vocab, int64_t positions) {
  spec::ModelSpec model = base;
  model.vocab_size = vocab;
  model.max_positions = positions;
  model.num_layers = row.layers;
  model.hidden_size = row.hidden;
  model.num_heads = row.heads;
  model.num_kv_heads = model.head_dim = model.intermediate_size = 0;
  model.tie_word_embeddings = true;  // most parameters of a small model would be the second table
  spec::resolve_model(&model);
  return model;
}

// The smallest shape that is worth as much as the best but for a hundredth of what can be learned: more
// parameters than the text can fill cost time and learn it by heart.
ShapeChoice choose_shape(const spec::RunSpec& spec, double flops_per_second, const DataFacts& data,
                         int64_t seq_len) {
  constexpr double kWorthTheSame = 0.01;
  const auto unique = static_cast<double>(data.train_tokens);
  std::vector<ShapeChoice> choices;
  double best = 0;
  for (const ShapeRow& row : kShapes) {
    ShapeChoice choice;
    choice.model = shaped(spec.model, row, data.vocab_size, seq_len);
    const cost::ParameterCounts counts = cost::count_parameters(choice.model);
    const double flops = cost::flops_per_token(choice.model, seq_len, cost::FlopConvention::kMfu);
    choice.tokens = budget_seconds(spec) * kBudgetShare * flops_per_second * row.efficiency / flops;
    choice.tokens = std::min(choice.tokens, kMostEpochs * unique);
    if (spec.train.train_tokens) choice.tokens = static_cast<double>(*spec.train.train_tokens);
    const auto body = static_cast<double>(counts.total - counts.embedding - counts.position);
    choice.loss = ranking_loss(body, choice.tokens, unique);
    best = choices.empty() ? choice.loss : std::min(best, choice.loss);
    choices.push_back(std::move(choice));
  }
  const double enough = best + kWorthTheSame * (best - kIrreducibleLoss);
  return *std::find_if(choices.begin(), choices.end(),
                       [&](const ShapeChoice& choice) { return choice.loss <= enough; });
}

// Samples of a step: some 1,500 steps for the budget, between 2,048 and 65,536 tokens.
int64_t choose_global_batch(double tokens, int64_t seq_len) {
  int64_t step_tokens = 2048;
  while (step_tokens < 65536 && tokens / static_cast<double>(step_tokens * 2) >= 1500) step_tokens *= 2;
  return std::max<int64_t>(1, step_tokens / seq_len);
}

// The largest that fits `limit`, caches and memory; and keeps the stages of a pipeline busy, which takes a
// multiple of them and several times as many micro-batches where there are enough samples.
int64_t choose_micro_batch(int64_t per_replica, int64_t seq_len, int64_t stages,
                           std::optional<int64_t> limit) {
  int64_t best = 1;
  const int64_t most = std::min(per_replica, std::max<int64_t>(1, kMicroBatchTokens / seq_len));
  for (int64_t candidate = 1; candidate <= most; ++candidate) {
    if (per_replica % candidate != 0 || candidate * seq_len > std::max(kMicroBatchTokens, seq_len)) continue;
    if (limit && candidate > *limit) continue;
    if (per_replica % stages == 0 && per_replica / candidate % stages != 0) continue;
    if (stages > 1 && candidate > 1 && per_replica / candidate < kTurnsOfAPipeline * stages) continue;
    best = candidate;
  }
  return best;
}

graph::Precision choose_precision(const spec::RunSpec& spec, const MachineFacts& machine,
                                  std::vector<Explanation>& explanations) {
  if (spec.run.precision) {
    return *spec.run.precision == spec::Precision::kBf16 ? graph::Precision::kBF16 : graph::Precision::kF32;
  }
  if (machine.fast_bf16) return graph::Precision::kBF16;
  explanations.push_back({"precision", "fp32: this processor has no instructions for bf16 products"});
  return graph::Precision::kF32;
}

// To so many decimal digits, since people read what was chosen: 6e-05, not 5.9999999999999995e-05.
double rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

LrSchedule schedule_of(const spec::RunSpec& spec, int64_t steps) {
  LrSchedule schedule;
  switch (spec.schedule.lr_schedule) {
    case spec::LrSchedule::kCosine:
      schedule.shape = LrShape::kCosine;
      break;
    case spec::LrSchedule::kWsd:
      schedule.shape = LrShape::kWsd;
      break;
    case spec::LrSchedule::kLinear:
      schedule.shape = LrShape::kLinear;
      break;
    case spec::LrSchedule::kConstant:
      schedule.shape = LrShape::kConstant;
      break;
    case spec::LrSchedule::kInverseSqrt:
      schedule.shape = LrShape::kInverseSqrt;
      break;
  }
  schedule.peak = spec.optimizer.learning_rate;
  schedule.floor = spec.schedule.min_lr.value_or(rounded(0.1 * schedule.peak, 12));
  // A hundredth of the steps; short runs need some tens of them all the same.
  schedule.warmup_steps =
      spec.schedule.warmup_steps.value_or(std::max(steps / 100, std::min(kFewestWarmupSteps, steps / 10)));
  schedule.total_steps = steps;
  if (spec.schedule.wsd_decay_steps && steps > 0)
    schedule.decay_fraction =
        static_cast<double>(*spec.schedule.wsd_decay_steps) / static_cast<double>(steps);
  return schedule;
}

std::string describe_model(const spec::ModelSpec& model) {
  const cost::ParameterCounts counts = cost::count_parameters(model);
  std::string heads = fmt::format("{} heads", model.num_heads);
  if (model.num_kv_heads != model.num_heads)
    heads += fmt::format(" ({} of keys and values)", model.num_kv_heads);
  return fmt::format("{} shape, {} layers, {} wide, {}: {} parameters",
                     model.family == "gpt2" ? "GPT-2" : "Llama", model.num_layers, model.hidden_size, heads,
                     format_count(static_cast<double>(counts.total)));
}

// How the work is split, with the share of a step in which a pipeline fills and drains: (p - 1) / (v m + p -
// 1) (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters").
std::string describe_layout(const ResolvedRun& run) {
  const spec::ParallelSpec& parallel = run.spec.parallel;
  std::string text = counted(run.mesh.world(), "rank") + ":";
  const auto add = [&text](const char* name, int64_t size) {
    if (size > 1) text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", name, size);
  };
  add("dp", *parallel.dp);
  add("tp", parallel.tp);
  add("cp", parallel.cp);
  add("pp", parallel.pp);
  if (parallel.pp > 1) {
    const auto stages = static_cast<double>(parallel.pp);
    const auto turns = static_cast<double>(parallel.virtual_stages * run.batch.micro_batches(0));
    text += fmt::format(" ({}; at least {:.0f} % of a step waits)",
                        counted(run.batch.micro_batches(0), "micro-batch", "micro-batches"),
                        100 * (stages - 1) / (turns + stages - 1));
  }
  if (*parallel.zero_stage > 0) text += fmt::format(", ZeRO {}", *parallel.zero_stage);
  return text;
}

// Sets the steps and what follows from them, and says the budget anew.
void set_steps(Resolution& resolution, int64_t steps) {
  ResolvedRun& run = resolution.run;
  run.spec.schedule = resolution.asked;
  run.train_steps = std::max<int64_t>(1, steps);
  run.spec.train.train_steps = run.train_steps;
  run.spec.train.train_tokens.reset();
  run.schedule = schedule_of(run.spec, run.train_steps);
  run.spec.schedule.warmup_steps = run.schedule.warmup_steps;
  run.spec.schedule.min_lr = run.schedule.floor;

  const auto tokens = static_cast<double>(run.train_steps * run.tokens_per_step());
  std::string text = fmt::format("{} of {}, {:.1f} epochs", counted(run.train_steps, "step"),
                                 counted(run.tokens_per_step(), "token"),
                                 tokens / static_cast<double>(resolution.data.train_tokens));
  if (resolution.budget_is_data)
    text += "; more repeats would teach nothing (for more: --set train.train_steps=N)";
  else if (run.spec.train.max_time)
    text = fmt::format("{} (--max-time): {}{}", format_duration(*run.spec.train.max_time),
                       resolution.budget_is_time ? "about " : "at most ", text);
  std::erase_if(resolution.explanations, [](const Explanation& one) { return one.subject == "budget"; });
  resolution.explanations.push_back({"budget", text});
}

Result<void> check_facts(const ResolvedRun& run, const DataFacts& data) {
  std::string mistakes;
  const auto add = [&](const std::string& line) { mistakes += (mistakes.empty() ? "" : "\n") + line; };
  if (run.spec.model.vocab_size < data.vocab_size)
    add(
        fmt::format("model.vocab_size = {}   the data's tokenizer has {} tokens; set model.vocab_size = {} "
                    "or leave it out",
                    run.spec.model.vocab_size, data.vocab_size, data.vocab_size));
  if (data.train_tokens <= run.seq_len())
    add(fmt::format(
        "data.train   has {}; one sample needs data.seq_len + 1 = {}; give more text or set a smaller "
        "data.seq_len",
        counted(data.train_tokens, "token"), run.seq_len() + 1));
  if (auto fits = run.batch.validate(); !fits) {
    add(fits.error().message);
  } else if (run.batch.micro_batches(0) > kMostMicroBatches) {
    add(fmt::format(
        "train.global_batch_size = {}   makes {} micro-batches a step; at most {} are planned; take a "
        "smaller one or a larger train.micro_batch_size",
        run.batch.global_batch, run.batch.micro_batches(0), kMostMicroBatches));
  }
  if (run.spec.run.determinism_groups && run.spec.run.determinism != spec::Determinism::kLayout)
    add(fmt::format("run.determinism_groups = {}   is for run.determinism = \"layout\"; leave it out",
                    *run.spec.run.determinism_groups));
  const int64_t head_dim = run.spec.model.head_dim;
  if (run.backend == "cpu" && (head_dim > kLargestCpuHead || head_dim % 2 != 0))
    add(fmt::format(
        "model.head_dim = {}   attention on CPUs takes even head sizes up to {}; choose another number of "
        "heads",
        head_dim, kLargestCpuHead));
  if (!mistakes.empty()) return invalid(mistakes);
  return {};
}

}  // namespace

std::span<const ShapeRow> shape_rows() { return kShapes; }

double ranking_loss(double parameters, double tokens, double unique) {
  // The authors' fit on C4; alpha and beta are one number in it.
  constexpr double kA = 520.8, kB = 1488.4, kAlpha = 0.3527, kTokenHalfLife = 15.39,
                   kParameterHalfLife = 5.31;
  // What is beyond `useful` counts less and less, and never more than `half_life` times `useful`.
  const auto effective = [](double amount, double useful, double half_life) {
    if (amount <= useful) return amount;
    return useful * (1 + half_life * (1 - std::exp(-(amount / useful - 1) / half_life)));
  };
  // The compute-optimal parameters of the unique tokens.
  const double filled = std::pow(kA / kB, 1 / kAlpha) * unique;
  return kIrreducibleLoss + kA / std::pow(effective(parameters, filled, kParameterHalfLife), kAlpha) +
         kB / std::pow(effective(tokens, unique, kTokenHalfLife), kAlpha);
}

double predicted_seconds_per_step(const ResolvedRun& run, const MachineFacts& machine) {
  double efficiency = kShapes.front().efficiency;
  for (const ShapeRow& row : kShapes) {
    if (row.hidden <= run.spec.model.hidden_size) efficiency = row.efficiency;
  }
  const double flops = cost::flops_per_token(run.spec.model, run.seq_len(), cost::FlopConvention::kMfu) *
                       static_cast<double>(run.tokens_per_step());
  return flops / (machine.flops_per_second(run.precision) * efficiency);
}

namespace {

// Fills the model where the configuration names no size. Returns the tokens that the budget is worth, 0 where
// sized.
double decide_model(const spec::LoadedSpec& loaded, const MachineFacts& machine, Resolution& resolution) {
  spec::RunSpec& spec = resolution.run.spec;
  const bool sized = spec.model.is_sized();
  spec.data.seq_len = seq_len_of(loaded, sized);
  double tokens = 0;
  if (!sized) {
    const double rate = machine.flops_per_second(resolution.run.precision);
    const ShapeChoice choice = choose_shape(spec, rate, resolution.data, spec.data.seq_len);
    spec.model = choice.model;
    tokens = choice.tokens;
    if (!loaded.is_set("optimizer.learning_rate"))
      spec.optimizer.learning_rate = rounded(
          std::clamp(6e-4 * std::sqrt(768.0 / static_cast<double>(spec.model.hidden_size)), 3e-4, 2e-3), 3);
  }
  if (spec.model.vocab_size == 0) spec.model.vocab_size = resolution.data.vocab_size;
  if (spec.model.max_positions == 0) spec.model.max_positions = spec.data.seq_len;
  spec::resolve_model(&spec.model);
  resolution.explanations.push_back({"model", describe_model(spec.model)});
  return tokens;
}

void decide_batch(ResolvedRun& run, double budget_tokens) {
  spec::RunSpec& spec = run.spec;
  constexpr double kTokensWhenSized = 3e7;
  const int64_t dp = *spec.parallel.dp;
  const int64_t chosen =
      choose_global_batch(budget_tokens > 0 ? budget_tokens : kTokensWhenSized, spec.data.seq_len);
  // With determinism "layout" the micro-batch is that of a group, whatever dp is.
  const int64_t shares = spec.run.determinism_groups.value_or(dp);
  const int64_t unit = shares * spec.parallel.pp * spec.train.micro_batch_size.value_or(1);
  run.batch.global_batch = spec::global_batch_samples(spec).value_or((chosen + unit - 1) / unit * unit);
  run.batch.replicas = dp;
  run.batch.micro_batch = spec.train.micro_batch_size.value_or(
      choose_micro_batch(std::max<int64_t>(1, run.batch.global_batch / shares), spec.data.seq_len,
                         spec.parallel.pp, spec.train.max_micro_batch_size));
  spec.train.global_batch_size = run.batch.global_batch;
  spec.train.global_batch_tokens.reset();
  spec.train.micro_batch_size = run.batch.micro_batch;
}

void decide_budget(Resolution& resolution, const MachineFacts& machine) {
  ResolvedRun& run = resolution.run;
  spec::TrainSpec& train = run.spec.train;
  resolution.budget_is_time = !has_step_budget(run.spec);
  if (!resolution.budget_is_time) {
    // With both, the one that ends first.
    const int64_t by_tokens =
        (train.train_tokens.value_or(0) + run.tokens_per_step() - 1) / run.tokens_per_step();
    const int64_t steps = train.train_steps.value_or(by_tokens);
    set_steps(resolution, train.train_tokens ? std::min(steps, by_tokens) : steps);
    return;
  }
  train.max_time = budget_seconds(run.spec);
  finish_budget(resolution, predicted_seconds_per_step(run, machine));
}

}  // namespace

Result<Resolution> resolve(const spec::LoadedSpec& loaded, const MachineFacts& machine,
                           const DataFacts& data) {
  Resolution resolution;
  ResolvedRun& run = resolution.run;
  run.spec = loaded.spec;
  spec::RunSpec& spec = run.spec;
  resolution.asked = spec.schedule;
  resolution.data = data;
  run.threads = static_cast<int>(spec.run.threads.value_or(machine.threads));
  run.backend = spec.run.device == spec::DeviceKind::kReference ? "reference" : "cpu";
  run.precision = choose_precision(spec, machine, resolution.explanations);
  spec.run.precision =
      run.precision == graph::Precision::kBF16 ? spec::Precision::kBf16 : spec::Precision::kFp32;
  const double budget_tokens = decide_model(loaded, machine, resolution);
  spec.parallel.dp = spec.parallel.dp.value_or(1);
  spec.parallel.zero_stage = spec.parallel.zero_stage.value_or(*spec.parallel.dp > 1 ? 1 : 0);
  if (spec.run.determinism == spec::Determinism::kLayout)
    spec.run.determinism_groups = spec.run.determinism_groups.value_or(*spec.parallel.dp);
  INGOT_TRY(run.mesh,
            graph::make_mesh(static_cast<int>(*spec.parallel.dp), static_cast<int>(spec.parallel.tp),
                             static_cast<int>(spec.parallel.pp), static_cast<int>(spec.parallel.cp),
                             static_cast<int>(spec.parallel.ep), static_cast<int>(spec.model.num_kv_heads),
                             static_cast<int>(spec.parallel.zero_group.value_or(0))));
  decide_batch(run, budget_tokens);
  INGOT_TRY_VOID(check_facts(run, data));
  if (run.mesh.world() > 1) resolution.explanations.push_back({"layout", describe_layout(run)});
  decide_budget(resolution, machine);
  return resolution;
}

void finish_budget(Resolution& resolution, double seconds_per_step) {
  if (!resolution.budget_is_time) return;
  const ResolvedRun& run = resolution.run;
  const double by_time = *run.spec.train.max_time * kBudgetShare / seconds_per_step;
  const double by_data = std::ceil(kMostEpochs * static_cast<double>(resolution.data.train_tokens) /
                                   static_cast<double>(run.tokens_per_step()));
  resolution.budget_is_data = by_data < by_time;
  set_steps(resolution, static_cast<int64_t>(std::min(by_time, by_data)));
}

Result<void> check_memory(const ResolvedRun& run, const RunPrograms& programs, const MachineFacts& machine) {
  const int64_t planned = planned_memory(programs).total();
  const auto limit =
      static_cast<int64_t>(run.spec.run.memory_fraction * static_cast<double>(machine.available_bytes));
  if (planned <= limit) return {};
  return invalid(fmt::format(
      "the run needs {} of memory; run.memory_fraction = {} of what is free here is {}. Use a smaller "
      "train.micro_batch_size (now {}), parallel.recompute = \"selective\" or a smaller model",
      format_bytes(planned), run.spec.run.memory_fraction, format_bytes(limit), run.batch.micro_batch));
}

}  // namespace ingot::train
