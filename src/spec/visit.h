#pragma once
// One visit per struct: every field once, with its key, what it means, unit, limits and the spellings of
// Megatron, torchtitan, DeepSpeed, Hugging Face, litgpt, nanotron, nanoGPT, llm-foundry, MaxText and
// Levanter. Reading, printing, help, comparison and aliases all come from these lines. Internal to spec.

#include <string_view>

#include "spec/field_types.h"
#include "spec/spec.h"
#include "spec/visit_model.h"
#include "spec/visit_training.h"

namespace ingot::spec {

template <class V>
void visit(RunBlock& b, V&& v) {
  v(b.dir, Field{.key = "dir",
                 .help = "folder of the run; empty: runs/<data>-<number>",
                 .also = "out_dir output_dir save_folder checkpoints_path folder"});
  v(b.seed,
    Field{
        .key = "seed", .help = "of initialisation, data order and dropout", .also = "random_seed", .min = 0});
  v(b.device, Field{.key = "device", .help = "where to compute", .also = "hardware accelerator"});
  v(b.precision, Field{.key = "precision",
                       .help = "of computation; weights and optimizer stay fp32",
                       .also = "dtype mixed_precision_param",
                       .unset = "bf16 where the machine is fast at it, else fp32",
                       .word = "auto"});
  v(b.residual_dtype,
    Field{.key = "residual_dtype", .help = "of the residual stream", .unset = "as precision"});
  v(b.threads, Field{.key = "threads",
                     .help = "threads of this process",
                     .also = "cpu_threads num_threads",
                     .min = 1,
                     .max = 4096,
                     .unset = "all that affinity and cgroup give",
                     .word = "auto"});
  v(b.threads_per_rank, Field{.key = "threads_per_rank",
                              .help = "threads of each rank of ingot launch",
                              .min = 1,
                              .max = 4096,
                              .unset = "threads shared out evenly"});
  v(b.memory_fraction, Field{.key = "memory_fraction",
                             .help = "part of the free memory that a plan may use",
                             .min = 0.01,
                             .max = 1});
  v(b.determinism, Field{.key = "determinism", .help = "same bits from run to run, or on every layout too"});
  v(b.determinism_groups, Field{.key = "determinism_groups",
                                .help = "logical groups of determinism = \"layout\"",
                                .min = 1,
                                .unset = "chosen"});
}

template <class V>
void visit(DataSpec& b, V&& v) {
  v(b.train, Field{.key = "train",
                   .help = "files, folders or globs, or a folder of ingot data build",
                   .also = "data_path dataset train_data_path dataset_path input_bin"});
  v(b.validation, Field{.key = "validation",
                        .help = "a path, or this part of the training data",
                        .also = "valid_data_path val_data_path input_val_bin"});
  v(b.tokenizer,
    Field{.key = "tokenizer",
          .help = "bytes, chars, or a file; empty: chosen",
          .also = "tokenizer_path tokenizer_model tokenizer_name tokenizer_name_or_path hf_assets_path"});
  v(b.seq_len,
    Field{.key = "seq_len",
          .help = "tokens of a sample",
          .also = "seq_length sequence_length block_size max_seq_len max_seq_length max_target_length "
                  "max_context_length context_length",
          .unit = Unit::kCount,
          .min = 1,
          .max = 1 << 30});
  v(b.text_field,
    Field{.key = "text_field", .help = "JSON field that holds the text", .also = "json_keys text_column"});
  v(b.mixture, Field{.key = "mixture", .help = "weight of each path", .also = "data_weights"});
  v(b.bos, Field{.key = "bos", .help = "a begin-of-text token before each document", .also = "add_bos"});
  v(b.document_mask,
    Field{
        .key = "document_mask", .help = "attention stays inside a document", .also = "reset_attention_mask"});
  v(b.on_corrupt, Field{.key = "on_corrupt", .help = "what a block with a wrong checksum does"});
}

template <class V>
void visit(CheckpointSpec& b, V&& v) {
  v(b.save_interval,
    Field{.key = "save_interval",
          .help = "steps from one checkpoint to the next",
          .also = "interval checkpoint_interval checkpoint_period checkpoint_every save_every",
          .unit = Unit::kCount,
          .min = 1,
          .unset = "by cost and risk",
          .word = "auto"});
  v(b.keep_last,
    Field{.key = "keep_last",
          .help = "checkpoints kept; 0: all",
          .also = "most_recent_k keep_latest_k save_num_checkpoints_to_keep max_num_checkpoints_to_keep",
          .min = 0});
  v(b.resume, Field{.key = "resume",
                    .help = "auto, never, or the folder of a checkpoint",
                    .also = "resume_checkpoint_path load_path autoresume load_checkpoint"});
  v(b.replicas, Field{.key = "replicas", .help = "copies in the memory of other nodes", .min = 0, .max = 16});
}

template <class V>
void visit(EvalSpec& b, V&& v) {
  v(b.eval_interval,
    Field{.key = "eval_interval",
          .help = "steps from one evaluation to the next; 0: at the end only",
          .also = "val_check_interval steps_per_eval freq eval_every interval val_loss_every",
          .unit = Unit::kCount,
          .min = 0});
  v(b.eval_tokens, Field{.key = "eval_tokens",
                         .help = "tokens of an evaluation",
                         .unit = Unit::kCount,
                         .min = 1,
                         .unset = "all of the validation data"});
}

template <class V>
void visit(ObserveSpec& b, V&& v) {
  v(b.tensorboard,
    Field{.key = "tensorboard", .help = "write TensorBoard files", .also = "enable_tensorboard"});
  v(b.prometheus_port, Field{.key = "prometheus_port",
                             .help = "serve metrics to Prometheus here",
                             .min = 1,
                             .max = 65535,
                             .unset = "not served"});
}

template <class V>
void visit(ClusterSpec& b, V&& v) {
  v(b.device, Field{.key = "device", .help = "kind of device, for instance H100-SXM; empty: this machine's"});
  v(b.nodes, Field{.key = "nodes", .help = "machines", .also = "num_nodes nnodes", .min = 1, .max = 1 << 20});
  v(b.devices_per_node, Field{.key = "devices_per_node",
                              .help = "devices of a machine",
                              .also = "gpus_per_node nproc_per_node",
                              .min = 1,
                              .max = 1 << 16});
  v(b.topology, Field{.key = "topology", .help = "of the network between machines"});
  v(b.oversubscription,
    Field{.key = "oversubscription", .help = "of a fat tree: bandwidth below over above", .min = 1});
  v(b.torus, Field{.key = "torus", .help = "machines along each side", .min = 1});
  v(b.links, Field{.key = "links", .help = "bandwidth and latency by class, one direction"});
  v(b.price_per_device_hour,
    Field{.key = "price_per_device_hour", .help = "money", .min = 0, .unset = "unknown"});
  v(b.mttf, Field{.key = "mttf",
                  .help = "mean time to failure of a device, s",
                  .unit = Unit::kSeconds,
                  .min = 1,
                  .unset = "unknown"});
}

// Blocks in the order of a file, with what other engines call them.
template <class V>
void visit_blocks(RunSpec& s, V&& v) {
  v(s.run, "run", "system job");
  v(s.model, "model", "model_config model_args");
  v(s.data, "data", "dataset data_args dataloader");
  v(s.train, "train", "training trainer training_args tokens metrics logging");
  v(s.optimizer, "optimizer", "optim");
  v(s.schedule, "schedule", "lr_scheduler scheduler");
  v(s.parallel, "parallel", "parallelism activation_checkpoint distributed zero_optimization");
  v(s.checkpoint, "checkpoint", "checkpoints checkpointing");
  v(s.eval, "eval", "validation evaluation");
  v(s.observe, "observe", "");
  v(s.cluster, "cluster", "");
}

}  // namespace ingot::spec
