#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/counted.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/units.h"
#include "cli/agent_report.h"
#include "cli/begun_run.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/outcome.h"
#include "cli/output_place.h"
#include "cli/run_folder.h"
#include "cli/source_lines.h"
#include "cli/text_generation.h"
#include "cli/train_configuration.h"
#include "cli/train_console.h"
#include "cli/training_data.h"
#include "cli/world.h"
#include "cost/flops.h"
#include "launch/rank_side.h"
#include "train/hugging_face.h"

namespace ingot::cli {
namespace {

using train::Resolution;

// What one training command works with, filled step by step.
struct Job {
  explicit Job(bool quiet) : console(quiet) {}
  Console console;
  World world;
  spec::LoadedSpec loaded;
  std::string run_dir;
  bool begun = false, resumable = false;  // as TrainConfiguration says
  SourceLine source;
  std::string changes;  // of a begun run by this command, a line each
  std::optional<FinishedRun> finished;
  std::string memory;  // the plan in words
  Machine machine;
  TrainingData data;
  Resolution resolution;
  train::RunPrograms programs;
};

// Loads the configuration, the same on all ranks, with the layout that this world gives it; rank 0 chooses
// the folder and looks into it.
Result<void> begin(const Arguments& arguments, int ranks, Job& job) {
  auto configuration = load_train_configuration(arguments);
  train::Fact own = train::configuration_fact(configuration ? configuration->loaded.spec : spec::RunSpec{});
  if (!configuration) own.text = configuration.error().message;
  INGOT_TRY_VOID(job.world.agree({train::program_fact(), own}));
  const auto chosen = job.world.of_first([&]() -> Result<std::string> {
    if (!configuration) return configuration.error();
    if (ranks > 1) {
      INGOT_TRY([[maybe_unused]] const auto layout, spec::check_layout(configuration->loaded, ranks));
    }
    for (const std::string& warning : configuration->warnings) job.console.warn(warning);
    return fmt::format("{}{}{}", configuration->begun ? 'b' : '-', configuration->resumable ? 'r' : '-',
                       configuration->loaded.spec.run.dir);
  });
  if (!chosen) return chosen.error();
  job.loaded = std::move(configuration->loaded);
  job.begun = chosen->at(0) == 'b';
  job.resumable = chosen->at(1) == 'r';
  job.run_dir = job.loaded.spec.run.dir = chosen->substr(2);
  if (ranks > 1) {
    INGOT_TRY(const spec::Layout layout, spec::check_layout(job.loaded, ranks));
    job.loaded.spec.parallel.dp = layout.dp;
  }
  if (const launch::RankSide* side = job.world.side()) {
    side->set_run_dir(job.run_dir);
    side->set_patience(job.loaded.spec.parallel.comm_timeout);
  }
  // Weights that were trained with a tokenizer mean nothing with another.
  const std::string theirs = job.loaded.spec.train.init_from + "/tokenizer.json";
  if (!job.loaded.spec.train.init_from.empty() && job.loaded.spec.data.tokenizer.empty() &&
      path_exists(theirs))
    job.loaded.spec.data.tokenizer = theirs;
  return {};
}

// A folder that holds something else is taken, since it was named; but it may be a slip.
void warn_of_other_files(Job& job) {
  if (is_run_folder(job.run_dir)) return;
  auto names = list_directory(job.run_dir);
  if (!names) return;
  std::erase_if(*names, [](const std::string& name) { return name.starts_with('.') || name == kLogFolder; });
  if (names->empty()) return;
  job.console.warn(fmt::format("{} holds other files ({}{}); the run is written beside them", job.run_dir,
                               names->front(), names->size() > 1 ? ", …" : ""));
}

// What is known to be wrong before any work: keys that this version cannot do, data that is not there, a
// folder that cannot be written, a run of another configuration.
Result<void> check_job(Job& job) {
  std::string refused;
  for (const std::string& sentence : spec::not_yet(job.loaded.spec))
    refused += (refused.empty() ? "" : "\n") + sentence;
  if (!refused.empty()) return invalid(refused);
  if (job.loaded.spec.data.train.empty())
    return invalid(
        "data.train   is not set: name a text file, as in ingot train book.txt, or set it in the "
        "configuration");
  INGOT_TRY(job.source, describe_sources(job.loaded.spec.data.train));
  INGOT_TRY_VOID(check_writable(job.run_dir, "run.dir"));
  if (!job.begun) warn_of_other_files(job);
  if (job.resumable) {
    INGOT_TRY(const std::vector<std::string> changes, changes_of_begun_run(job.run_dir, job.loaded));
    for (const std::string& change : changes) job.changes += (job.changes.empty() ? "" : "\n") + change;
    INGOT_TRY(job.finished, finished_run(job.run_dir, job.loaded.spec));
  }
  return {};
}

std::string tokenizer_text(const Job& job, double seconds) {
  const data::Tokenizer& tokenizer = *job.data.prepared.tokenizer;
  const data::TokenStream& train = job.data.prepared.dataset.train();
  const data::TokenStream& validation = job.data.prepared.dataset.validation();
  const int64_t tokens = train.tokens() + validation.tokens();
  const auto bytes = static_cast<double>(train.text_bytes() + validation.text_bytes());
  const std::string kind = tokenizer.kind() == "bpe" ? "byte-level BPE" : std::string(tokenizer.kind());
  const std::string made = tokenizer.name() == "trained" ? "trained " + kind : kind;
  const std::string when =
      job.data.prepared.built ? fmt::format(" ({:.1f} s)", seconds) : " (kept from before)";
  return fmt::format("{}, {} tokens: {} tokens, {:.2f} bytes a token{}\n{} for training, {} for validation",
                     made, format_integer(tokenizer.vocab_size()), format_count(static_cast<double>(tokens)),
                     bytes / static_cast<double>(std::max<int64_t>(tokens, 1)), when,
                     format_integer(train.tokens()), format_integer(validation.tokens()));
}

Result<void> prepare(Job& job) {
  const int64_t begin = monotonic_ns();
  INGOT_TRY(
      job.data, open_training_data(job.loaded.spec, "", [&](const data::BuildProgress& progress) {
        job.console.live(fmt::format("tokenizer       {} of text read, {} tokens",
                                     format_bytes(progress.text_bytes), format_integer(progress.tokens)));
      }));
  const double seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  job.console.field("tokenizer", tokenizer_text(job, seconds));
  for (const std::string& note : job.data.prepared.notes) job.console.field("", note);
  for (const std::string& warning : job.data.prepared.warnings) job.console.warn(warning);
  if (!job.resumable) return {};
  return check_same_data(job.run_dir, job.loaded.spec.data.train, job.data.identity);
}

// What determinism = "layout" costs: a line of its own.
std::string tree_text(const train::RunPrograms& programs) {
  const graph::Program& first = *programs[0].train;
  if (first.layout.determinism_groups == 0) return "";
  int64_t waiting = 0;
  for (const train::RankPrograms& own : programs)
    for (const graph::BufferPlan& buffer : own.train->code->buffers)
      if (buffer.name.find(".branch.") != std::string::npos) waiting += buffer.bytes();
  std::string text = fmt::format("\n{} of the gradients are sums that wait for others of {} groups",
                                 format_bytes(waiting), first.layout.determinism_groups);
  if (const double sent = graph::step_totals(first).sent_bytes; sent > 0)
    text += fmt::format("; a rank sends {} in a step", format_bytes(static_cast<int64_t>(sent)));
  return text;
}

// All parts in the unit of the whole: "1.31 GiB planned: state 0.18, activations 1.02, ...".
std::string memory_text(const train::RunPrograms& programs) {
  const graph::MemoryTotals memory = train::planned_memory(programs);
  const std::string total = format_bytes(memory.total());
  double unit = 1;
  for (const char* name : {"KiB", "MiB", "GiB", "TiB"}) {
    unit *= 1024;
    if (total.ends_with(name)) break;
  }
  const auto part = [&](int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / unit); };
  return fmt::format("{} planned: state {}, activations {}, gradients {}, packed weights {}{}", total,
                     part(memory.state), part(memory.slots + memory.scratch), part(memory.step),
                     part(memory.derived), tree_text(programs));
}

// Validation data too short for one sample would give no validation loss, silently.
Result<void> check_validation(Job& job) {
  const train::ResolvedRun& run = job.resolution.run;
  const int64_t tokens = job.data.prepared.dataset.validation().tokens();
  if (tokens > run.seq_len()) return {};
  const std::string what =
      fmt::format("the validation data has {}, and one sample takes data.seq_len + 1 = {}",
                  counted(tokens, "token"), run.seq_len() + 1);
  if (run.spec.train.target_loss)
    return invalid(
        fmt::format("train.target_loss = {}   needs a validation loss: {}. Set a larger part or "
                    "a text of its own as data.validation",
                    *run.spec.train.target_loss, what));
  if (tokens > 0)
    job.console.warn(what +
                     ": there will be no validation loss. Set a larger part or a text of its own "
                     "as data.validation, or a smaller data.seq_len");
  return {};
}

Result<void> plan(Job& job) {
  INGOT_TRY(job.resolution, train::resolve(job.loaded, job.machine.facts, job.data.facts()));
  if (!job.world.alone()) job.resolution.run.rank = job.world.rank();
  const train::ResolvedRun& run = job.resolution.run;
  INGOT_TRY_VOID(check_validation(job));
  INGOT_TRY(job.programs, train::compile_programs(run));
  job.memory = memory_text(job.programs);
  return train::check_memory(run, job.programs, job.machine.facts);
}

double predicted_seconds(const Job& job) {
  const train::ResolvedRun& run = job.resolution.run;
  return train::predicted_seconds_per_step(run, job.machine.facts) * static_cast<double>(run.train_steps);
}

nlohmann::ordered_json plan_json(const Job& job) {
  const train::ResolvedRun& run = job.resolution.run;
  const graph::MemoryTotals& memory = job.programs[0].train->memory;
  const cost::ParameterCounts counts = cost::count_parameters(run.spec.model);
  nlohmann::ordered_json json;
  json["format_version"] = 1;
  json["parameters"] = counts.total;
  json["train_steps"] = run.train_steps;
  json["tokens_per_step"] = run.tokens_per_step();
  json["train_tokens"] = run.train_steps * run.tokens_per_step();
  json["micro_batch_size"] = run.batch.micro_batch;
  json["micro_batches"] = run.batch.micro_batches(0);
  json["precision"] = graph::name_of(run.precision);
  json["flops_per_token"] = cost::flops_per_token(run.spec.model, run.seq_len(), cost::FlopConvention::kMfu);
  json["predicted_seconds"] = predicted_seconds(job);
  json["memory_bytes"] = {{"total", memory.total()},  {"state", memory.state}, {"derived", memory.derived},
                          {"step", memory.step},      {"input", memory.input}, {"slots", memory.slots},
                          {"scratch", memory.scratch}};
  return json;
}

void show_model(Job& job) {
  for (const train::Explanation& one : job.resolution.explanations) {
    if (one.subject != "budget") job.console.field(one.subject, one.text);
  }
}

void show_budget(Job& job) {
  for (const train::Explanation& one : job.resolution.explanations) {
    if (one.subject == "budget") job.console.field(one.subject, one.text);
  }
  job.console.field("memory", job.memory);
}

int dry_run(Job& job, bool json) {
  if (json) {
    (void)print_out(plan_json(job).dump(2) + "\n");
    return kDone;
  }
  show_model(job);
  show_budget(job);
  job.console.field("time", fmt::format("about {} predicted for the steps (a run measures it)",
                                        format_duration(predicted_seconds(job))));
  job.console.field("", "nothing was started (--dry-run)");
  return kDone;
}

// The checkpoint to go on with, empty where there is none. Damaged ones are passed over, and what killed
// saves left is removed.
Result<std::string> newest_checkpoint(Job& job) {
  if (!job.resumable) return std::string();
  INGOT_TRY(const std::optional<checkpoint::Latest> newest,
            checkpoint::latest(train::checkpoint_folder(job.run_dir)));
  if (!newest) return std::string();
  for (const std::string& note : newest->notes) job.console.warn(note);
  return newest->path;
}

// Lines of metrics behind the step at which the run goes on: these steps are made again.
Result<void> forget_metrics(const Job& job, int64_t step) {
  if (!job.world.first()) return {};
  return train::RunFiles::forget_after(job.run_dir, step);
}

// Parameters and progress: from a checkpoint, from a folder, or new.
Result<train::Progress> start_state(Job& job, train::Session& session) {
  const spec::RunSpec& spec = job.resolution.run.spec;
  session.initialise();
  INGOT_TRY(std::string from, job.world.of_first([&] { return newest_checkpoint(job); }));
  if (spec.checkpoint.resume != "auto" && spec.checkpoint.resume != "never") from = spec.checkpoint.resume;
  if (!from.empty()) {
    INGOT_TRY(const checkpoint::Checkpoint saved, checkpoint::Checkpoint::open(from));
    INGOT_TRY(const train::Progress progress, train::load_session(session, saved, job.data.identity));
    INGOT_TRY_VOID(forget_metrics(job, progress.step));
    job.console.field("resume", fmt::format("step {} from {}", format_integer(progress.step), from));
    return progress;
  }
  INGOT_TRY_VOID(forget_metrics(job, 0));
  if (!spec.train.init_from.empty()) {
    INGOT_TRY_VOID(train::init_from_folder(session.weights(), spec.model, spec.train.init_from));
    job.console.field("init", "parameters of " + spec.train.init_from);
  }
  return train::Progress{};
}

Result<void> write_run_files(const Job& job) {
  INGOT_TRY_VOID(make_directories(job.run_dir));
  INGOT_TRY_VOID(write_run_configuration(job.run_dir, job.resolution.run.spec));
  INGOT_TRY_VOID(write_file_atomically(job.run_dir + "/plan.json", plan_json(job).dump(2) + "\n"));
  return data::save_tokenizer(*job.data.prepared.tokenizer, job.run_dir + "/tokenizer.json");
}

void show_result(Job& job, const train::LoopResult& result) {
  std::string text =
      fmt::format("{} in {}", counted(result.progress.step, "step"), format_duration(result.seconds));
  if (result.last_evaluation) {
    text += fmt::format(", validation loss {:.3f}", without_nan_sign(result.last_evaluation->loss));
    const int64_t best = result.progress.best_validation_step;  // 0: no loss was a number
    if (best > 0 && best != result.progress.step)
      text += fmt::format(" (best {:.3f} at step {})", result.progress.best_validation_loss,
                          format_integer(best));
  } else {
    text += fmt::format(", loss {:.3f}", without_nan_sign(result.last_loss));
  }
  const train::Progress& progress = result.progress;
  text += fmt::format(", {}", counted(progress.skipped_steps, "skipped step"));
  text += fmt::format(", {} clipped", format_integer(progress.clipped_steps));
  switch (result.reason) {
    case train::StopReason::kTargetLoss:
      text += fmt::format("\ntarget loss {} reached after {:.2f} epochs",
                          *job.resolution.run.spec.train.target_loss, result.epochs);
      break;
    case train::StopReason::kMaxTime:
      text += fmt::format("\nthe time of {} ended before the {} steps planned",
                          format_duration(*job.resolution.run.spec.train.max_time),
                          format_integer(job.resolution.run.train_steps));
      break;
    default:
      break;
  }
  job.console.field("done", text);
}

void show_next(Job& job) {
  if (job.console.quiet()) return;
  const auto run = open_run(job.run_dir);
  if (run) {
    const auto sample =
        generate_text(*run, {.prompt = "", .tokens = 60, .sampling = {.temperature = 0.8, .top_k = 50}});
    if (sample && sample->text.find_first_not_of(" \n\t\r") != std::string::npos)
      job.console.field("sample", one_paragraph(sample->text));
  }
  job.console.field("next", fmt::format("ingot generate {} --prompt \"…\"\ningot eval {} --data other.txt\n"
                                        "ingot export {} --to hf-folder/",
                                        job.run_dir, job.run_dir, job.run_dir));
}

// One process trains in a folder; two would overwrite each other's files.
Result<FileLock> lock_run(const std::string& run_dir) {
  INGOT_TRY_VOID(make_directories(run_dir));
  auto lock = FileLock::take(run_dir + "/.lock");
  if (!lock && lock.error().code == ErrorCode::kUnavailable)
    return invalid(fmt::format(
        "another process is training in {}; wait for it, stop it, or give another --run-dir", run_dir));
  return lock;
}

// A run that ends without a number for its loss is no success, whatever was saved.
int check_finite(Job& job, const train::LoopResult& result) {
  const double loss = result.last_evaluation ? result.last_evaluation->loss : result.last_loss;
  if (std::isfinite(loss)) return kDone;
  job.console.error(
      "the loss is not finite: this model is of no use. Lower optimizer.learning_rate (and look at "
      "optimizer.adam_eps and clip_grad), and start a new run");
  return kFailed;
}

Result<std::unique_ptr<train::Session>> open_session(Job& job) {
  if (job.world.alone()) return train::Session::create(job.resolution.run, job.programs);
  return train::Session::join(job.resolution.run, job.programs, job.world.take_transport());
}

// Of rank 0: what the run's folder says of it. Others write only checkpoints.
Result<std::optional<train::RunFiles>> open_run_files(Job& job) {
  std::optional<train::RunFiles> files;
  if (!job.world.first()) return files;
  INGOT_TRY_VOID(write_run_files(job));
  INGOT_TRY(files, train::RunFiles::open(job.run_dir));
  job.console.field("run", fmt::format("{}/   (configuration written there: config.toml)", job.run_dir));
  return files;
}

Result<train::LoopResult> run_steps(Job& job, train::Session& session, const train::Progress& progress,
                                    train::RunFiles* files) {
  EventLog events;
  events.add_sink([&](const Event& event) {
    if (files != nullptr) (void)files->write(event);
    const Severity shown = job.world.first() ? Severity::kWarning : Severity::kError;
    if (event.severity >= shown) job.console.warn(event.message);
  });
  train::InterruptGuard interrupt;
  TrainConsole live(job.console, session.planned_bytes());
  train::LoopInputs inputs;
  inputs.session = &session;
  inputs.train = &job.data.prepared.dataset.train();
  inputs.validation = &job.data.prepared.dataset.validation();
  inputs.identity = job.data.identity;
  inputs.run_dir = job.run_dir;
  inputs.files = files;
  inputs.events = &events;
  inputs.interrupt = &interrupt;
  if (job.world.first())
    inputs.peak_flops = peak_sampler(job.resolution.run.precision, job.resolution.run.threads);
  train::LoopCallbacks callbacks;
  callbacks.on_step = [&](const train::StepReport& report) { live.step(report); };
  callbacks.on_evaluation = [&](const train::EvaluationReport& report) { live.evaluation(report); };
  callbacks.on_interrupt = [&] {
    job.console.line("stopping after this step, saving (again to stop at once)");
  };
  live.begin();
  return train::run_loop(inputs, progress, callbacks);
}

Result<int> train(Job& job) {
  std::optional<FileLock> lock;
  INGOT_TRY([[maybe_unused]] const std::string locked, job.world.of_first([&]() -> Result<std::string> {
    INGOT_TRY(lock, lock_run(job.run_dir));
    return std::string();
  }));
  INGOT_TRY(const std::unique_ptr<train::Session> session, open_session(job));
  if (job.resolution.budget_is_time && !job.resumable) {
    job.console.live("measuring one step …");
    INGOT_TRY(const double seconds, session->measure_step(2.0));
    train::finish_budget(job.resolution, seconds);
    session->set_budget(job.resolution.run);
  }
  show_budget(job);
  INGOT_TRY(const train::Progress progress, start_state(job, *session));
  INGOT_TRY(std::optional<train::RunFiles> files, open_run_files(job));
  INGOT_TRY(const train::LoopResult result, run_steps(job, *session, progress, files ? &*files : nullptr));
  if (!job.world.alone()) INGOT_TRY_VOID(session->leave());
  if (result.reason == train::StopReason::kInterrupted) {
    job.console.field("stopped", fmt::format("after step {}, saved; go on with: ingot train {}",
                                             format_integer(result.progress.step), job.run_dir));
    return kInterruptedSaved;
  }
  if (job.world.first() && !path_exists(job.run_dir + "/config.toml")) {
    job.console.warn(fmt::format("files of {} were removed while it trained; written again", job.run_dir));
    INGOT_TRY_VOID(write_run_files(job));
  }
  show_result(job, result);
  return check_finite(job, result);
}

// The machine of rank 0 is what choices rest on; cores and memory are each rank's own.
Result<void> look_at_machine(Job& job, bool measure) {
  const spec::RunSpec& spec = job.loaded.spec;
  const int threads = static_cast<int>(spec.run.threads.value_or(0));
  INGOT_TRY(job.machine, find_machine(threads, spec.run.precision, measure && job.world.first()));
  train::MachineFacts& facts = job.machine.facts;
  INGOT_TRY(const std::string told, job.world.of_first([&]() -> Result<std::string> {
    return std::string(reinterpret_cast<const char*>(&facts), sizeof facts);
  }));
  train::MachineFacts of_first;
  std::memcpy(&of_first, told.data(), sizeof of_first);
  facts.fast_bf16 = of_first.fast_bf16;
  facts.bf16_flops_per_second = of_first.bf16_flops_per_second * job.world.size();
  facts.f32_flops_per_second = of_first.f32_flops_per_second * job.world.size();
  return {};
}

Result<int> run_job(const Arguments& arguments, int ranks, Job& job) {
  INGOT_TRY_VOID(begin(arguments, ranks, job));
  for (const std::string& note : job.loaded.notes) job.console.field("note", note);
  if (arguments.has("--dump-config")) {
    INGOT_TRY_VOID(print_out(spec::dump_spec(job.loaded.spec)));
    return kDone;
  }
  if (arguments.has("--json") && !arguments.has("--dry-run"))
    return invalid("--json   goes with --dry-run; a run writes its figures to metrics.jsonl");
  INGOT_TRY(const std::string state, job.world.of_first([&]() -> Result<std::string> {
    INGOT_TRY_VOID(check_job(job));
    return std::string(job.finished ? "finished" : "");
  }));
  if (!job.changes.empty()) job.console.field("changed", job.changes);
  if (!state.empty() && !arguments.has("--dry-run")) {
    if (job.finished) job.console.field("done", job.finished->what);
    if (job.finished) job.console.field("more", job.finished->more);
    return kDone;
  }
  job.console.field(job.source.name, job.source.text);
  const spec::RunSpec& spec = job.loaded.spec;
  const bool steps_known = spec.train.train_steps || spec.train.train_tokens;
  // What a choice or a prediction rests on is measured; a run that leaves nothing open starts at once.
  const bool measure = !spec.model.is_sized() || !steps_known || arguments.has("--dry-run");
  INGOT_TRY_VOID(look_at_machine(job, measure));
  job.console.field("machine", job.machine.description);
  INGOT_TRY_VOID(job.world.one_before_others([&] { return prepare(job); }));
  INGOT_TRY_VOID(job.world.agree({train::data_fact(job.data.identity)}));
  INGOT_TRY_VOID(plan(job));
  INGOT_TRY_VOID(job.world.agree(train::resolved_facts(job.resolution.run, job.programs)));
  if (arguments.has("--dry-run")) return dry_run(job, arguments.has("--json"));
  show_model(job);
  return train(job);
}

// Where other processes wait for this one, or it for them, nothing is closed in order after an error.
int leave(Job& job, const Result<int>& code) {
  if (!code && !(job.world.said_by_first() && !job.world.first())) job.console.error(code.error().message);
  const int number = code ? *code : exit_code(code.error());
  if (code) job.world.leave();
  if (code || job.world.alone()) return number;
  std::fflush(nullptr);
  ::_exit(number);
}

int run(const Arguments& arguments) {
  const bool only_looks = arguments.has("--dry-run") || arguments.has("--dump-config");
  Job job(arguments.has("--quiet") || (arguments.has("--dry-run") && arguments.has("--json")));
  const auto place = launch::find_place(launch::process_environment());
  if (!place) return fail(job.console, place.error());
  if (place->world > 1 && only_looks && place->rank > 0) return kDone;
  if (place->world > 1 && !only_looks) {
    // mpirun gives its ranks something that looks like a terminal, and copies what they write.
    if (place->launcher != launch::kOwnLauncher) job.console.be_plain();
    auto rank = launch::become_rank(*place, launch::process_environment(), voice_of(job.console, ""));
    if (!rank) return fail(job.console, rank.error());
    if (rank->result) return report(job.console, *rank->result, "");
    if (place->rank > 0) job.console.be_quiet();
    auto world = World::join(std::move(*rank->side), arguments.get("--transport").value_or("ucx"));
    if (!world) return fail(job.console, world.error());
    job.world = std::move(*world);
  }
  const auto code = run_job(arguments, place->world, job);
  if (code && *code == kDone && job.world.first() && !only_looks) show_next(job);
  return leave(job, code);
}

}  // namespace

Verb train_verb() {
  return {.name = "train",
          .summary = "Train a model from text or a configuration, or go on with a run.",
          .group = "Train",
          .example = "ingot train book.txt --max-time 20min",
          .input = "text files, folders or globs (txt, jsonl, .gz, .zst); or one run.toml; or a run's folder",
          .options = train_options(),
          .see_also = "docs/howto/train.md, ingot generate, ingot eval",
          .run = run,
          .saves = true};
}

}  // namespace ingot::cli
