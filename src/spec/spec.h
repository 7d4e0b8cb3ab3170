#pragma once
// What a user asks for, as plain data: one struct for each block of a configuration file, field names = keys,
// and RunSpec that holds them all. No behaviour here: spec/config.h reads, checks, prints and compares them;
// what runs them is in later layers. An unset optional means "chosen by Ingot". To add a key: a field here, a
// line in spec/visit.h, and, until it works, a row in spec/not_yet.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ingot::spec {

enum class Precision : uint8_t { kFp32, kBf16, kFp16, kFp8 };
enum class DeviceKind : uint8_t { kAuto, kCpu, kCuda, kReference };
enum class Determinism : uint8_t { kRun, kLayout };
enum class Activation : uint8_t { kGeluTanh, kGeluErf, kSilu };  // kSilu is gated (SwiGLU)
enum class OptimizerName : uint8_t { kAdamW };
enum class LrSchedule : uint8_t { kCosine, kWsd, kLinear, kConstant, kInverseSqrt };
enum class DecayStyle : uint8_t { kLinear, kCosine, kSqrt, kExponential };
enum class PipelineSchedule : uint8_t { kOneFOneB, kInterleaved, kGpipe, kZeroBubble };
enum class ContextMode : uint8_t { kRing, kUlysses, kAllGather };
enum class Recompute : uint8_t { kNone, kSelective, kFull, kAuto };
enum class Topology : uint8_t { kSwitch, kFatTree, kTorus };
enum class OnCorrupt : uint8_t { kStop, kSkip };

struct RunBlock {
  std::string dir;  // empty: runs/<name>-<n>
  int64_t seed = 1;
  DeviceKind device = DeviceKind::kAuto;
  std::optional<Precision> precision;       // unset: bf16 where the machine is fast at it, else fp32
  std::optional<Precision> residual_dtype;  // unset: as the computation
  std::optional<int64_t> threads;           // unset: all that affinity and cgroup give
  std::optional<int64_t> threads_per_rank;
  double memory_fraction = 0.8;
  Determinism determinism = Determinism::kRun;
  std::optional<int64_t> determinism_groups;

  bool operator==(const RunBlock&) const = default;
};

struct RopeScaling {  // as Llama 3.1 stretches rotary frequencies
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;

  bool operator==(const RopeScaling&) const = default;
};

// One canonical set of fields; a configuration file says them in the words of the family's config.json.
struct ModelSpec {
  std::string family =
      "llama";       // "gpt2": learned positions, layer norm, one GELU; "llama": rotary, RMS norm, SwiGLU
  std::string from;  // a config.json, or its folder, to start from; empty once it has been read
  int64_t vocab_size = 0;     // V; 0: the tokenizer's
  int64_t max_positions = 0;  // 0 after parsing: data.seq_len
  int64_t hidden_size = 0;    // C; 0: chosen for the machine and the data, with all that follow
  int64_t num_layers = 0;     // L
  int64_t num_heads = 0;      // H
  int64_t num_kv_heads = 0;   // G; resolved to H where not given
  int64_t head_dim = 0;       // D; resolved to C / H where not given
  int64_t intermediate_size =
      0;  // F; resolved to 4 C (gpt2), or 8/3 C rounded up to a multiple of 64 (llama)
  Activation activation = Activation::kSilu;
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  bool tie_word_embeddings = false;
  bool bias = false;      // every linear and norm has one (gpt2; false as nanoGPT)
  bool qkv_bias = false;  // llama: of query, key and value alone, as Qwen 2
  double dropout = 0;     // of what is added to the residual stream
  double embedding_dropout = 0;
  double attention_dropout = 0;  // must be 0
  double initializer_range = 0.02;

  bool is_sized() const { return hidden_size > 0; }
  bool operator==(const ModelSpec&) const = default;
};

// The defaults of a family, as its published config.json has them. Empty family names give llama's.
ModelSpec default_model(const std::string& family);
// Fills what follows from other fields (G, D, F) where it is 0.
void resolve_model(ModelSpec* model);

struct ValidationSource {  // a path where it is not empty, else a fraction of the training data
  std::string path;
  double fraction = 0.005;

  bool operator==(const ValidationSource&) const = default;
};

struct DataSpec {
  std::vector<std::string> train;  // files, folders, globs
  ValidationSource validation;
  std::string tokenizer;  // empty: chosen
  int64_t seq_len = 1024;
  std::string text_field = "text";
  std::vector<std::pair<std::string, double>> mixture;  // path, weight
  bool bos = false;
  bool document_mask = false;
  OnCorrupt on_corrupt = OnCorrupt::kStop;

  bool operator==(const DataSpec&) const = default;
};

struct TrainSpec {
  std::optional<int64_t> global_batch_size;    // samples
  std::optional<int64_t> global_batch_tokens;  // a multiple of seq_len; one of the two at most
  std::optional<int64_t> micro_batch_size;     // samples; unset: auto
  std::optional<int64_t> max_micro_batch_size;
  std::optional<int64_t> train_steps;
  std::optional<int64_t> train_tokens;
  std::optional<double> max_time;  // seconds
  std::optional<double> max_cost;
  std::optional<double> max_kwh;
  std::string deadline;
  std::optional<double> target_loss;
  int64_t log_interval = 10;
  std::string init_from;  // a folder with config.json and model.safetensors

  bool operator==(const TrainSpec&) const = default;
};

struct OptimizerSpec {
  OptimizerName name = OptimizerName::kAdamW;
  double learning_rate = 6e-4;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  double adam_eps = 1e-8;
  double weight_decay = 0.1;
  double clip_grad = 1.0;  // 0: never
  Precision state_dtype = Precision::kFp32;
  std::optional<double> ema_decay;
  bool offload = false;

  bool operator==(const OptimizerSpec&) const = default;
};

struct ScheduleSpec {
  LrSchedule lr_schedule = LrSchedule::kCosine;
  std::optional<int64_t> warmup_steps;     // unset: 1 % of the steps
  std::optional<double> min_lr;            // unset: 0.1 of the peak
  std::optional<int64_t> wsd_decay_steps;  // unset: the last 20 % of the steps
  DecayStyle decay_style = DecayStyle::kSqrt;

  bool operator==(const ScheduleSpec&) const = default;
};

struct ParallelSpec {
  bool automatic = false;     // key "auto"
  std::optional<int64_t> dp;  // unset: what the others leave of the world
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t ep = 1;
  std::string order;
  std::optional<int64_t> zero_stage;  // unset: 1 when dp > 1
  std::optional<int64_t> zero_group;
  PipelineSchedule pp_schedule = PipelineSchedule::kOneFOneB;
  int64_t virtual_stages = 1;
  ContextMode cp_mode = ContextMode::kRing;
  Recompute recompute = Recompute::kNone;
  Precision grad_reduce_dtype = Precision::kFp32;
  int64_t bucket_size = int64_t{64} << 20;  // bytes
  double comm_timeout = 30;                 // seconds

  bool operator==(const ParallelSpec&) const = default;
};

struct CheckpointSpec {
  std::optional<int64_t> save_interval = 1000;  // steps; unset: auto
  int64_t keep_last = 3;
  std::string resume = "auto";  // auto, never, or the folder of a checkpoint
  int64_t replicas = 0;

  bool operator==(const CheckpointSpec&) const = default;
};

struct EvalSpec {
  int64_t eval_interval = 250;         // steps; 0: only at the end
  std::optional<int64_t> eval_tokens;  // unset: all of the validation data

  bool operator==(const EvalSpec&) const = default;
};

struct ObserveSpec {
  bool tensorboard = false;
  std::optional<int64_t> prometheus_port;

  bool operator==(const ObserveSpec&) const = default;
};

struct LinkSpec {
  double bandwidth = 0;  // bytes per second, one direction
  double latency = 0;    // seconds

  bool operator==(const LinkSpec&) const = default;
};

struct ClusterSpec {
  std::string device;
  int64_t nodes = 1;
  int64_t devices_per_node = 1;
  Topology topology = Topology::kSwitch;
  double oversubscription = 1;
  std::vector<int64_t> torus;
  std::vector<std::pair<std::string, LinkSpec>> links;  // by class, sorted
  std::optional<double> price_per_device_hour;
  std::optional<double> mttf;  // seconds, of one device

  bool operator==(const ClusterSpec&) const = default;
};

struct RunSpec {
  RunBlock run;
  ModelSpec model;
  DataSpec data;
  TrainSpec train;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  ParallelSpec parallel;
  CheckpointSpec checkpoint;
  EvalSpec eval;
  ObserveSpec observe;
  ClusterSpec cluster;

  bool operator==(const RunSpec&) const = default;
};

}  // namespace ingot::spec
