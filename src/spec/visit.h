#pragma once
// One visit per struct: every field once, with its key, what it means, unit, limits and the spellings of
// Megatron, torchtitan, DeepSpeed, Hugging Face, litgpt, nanotron, nanoGPT, llm-foundry, MaxText and
// Levanter. Reading, printing, help, comparison and aliases all come from these lines. Internal to spec.

#include <string_view>

#include "spec/field_types.h"
#include "spec/spec.h"

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

// config.json of the two families: the same thing under other words.
struct ModelWords {
  std::string_view positions, hidden, layers, heads, inner, activation, eps;
};
inline constexpr ModelWords kGpt2Words{
    "n_positions", "n_embd", "n_layer", "n_head", "n_inner", "activation_function", "layer_norm_epsilon"};
inline constexpr ModelWords kLlamaWords{
    "max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size",       "hidden_act",  "rms_norm_eps"};

template <class V>
void visit_sizes(ModelSpec& b, V&& v) {
  const bool gpt2 = b.family == "gpt2";
  const ModelWords& w = gpt2 ? kGpt2Words : kLlamaWords;
  v(b.family, Field{.key = "family", .help = "gpt2 or llama", .also = "model_type"});
  v(b.from, Field{.key = "from", .help = "config.json, or its folder, to read first; empty: none"});
  v(b.vocab_size, Field{.key = "vocab_size",
                        .help = "tokens; 0: those of the tokenizer",
                        .also = "padded_vocab_size",
                        .min = 0,
                        .max = 1 << 28});
  v(b.max_positions, Field{.key = w.positions,
                           .help = "longest sequence; 0: data.seq_len",
                           .also = "n_positions max_position_embeddings n_ctx block_size max_seq_len",
                           .unit = Unit::kCount,
                           .min = 0,
                           .max = 1 << 30});
  v(b.hidden_size, Field{.key = w.hidden,
                         .help = "width C; 0: the whole shape is chosen",
                         .also = "hidden_size n_embd d_model hidden_dim base_emb_dim",
                         .min = 0,
                         .max = 1 << 20});
  v(b.num_layers, Field{.key = w.layers,
                        .help = "layers L",
                        .also = "num_hidden_layers n_layer n_layers num_layers base_num_decoder_layers",
                        .min = 0,
                        .max = 1 << 16});
  v(b.num_heads, Field{.key = w.heads,
                       .help = "attention heads H",
                       .also = "num_attention_heads n_head n_heads num_heads base_num_query_heads",
                       .min = 0,
                       .max = 1 << 16});
  if (!gpt2) {
    v(b.num_kv_heads, Field{.key = "num_key_value_heads",
                            .help = "key and value heads G; 0: as many as heads",
                            .also = "num_query_groups n_query_groups num_kv_heads base_num_kv_heads",
                            .min = 0,
                            .max = 1 << 16});
    v(b.head_dim, Field{.key = "head_dim",
                        .help = "size of a head D; 0: width / heads",
                        .also = "kv_channels head_size",
                        .min = 0,
                        .max = 1 << 16});
  }
  v(b.intermediate_size,
    Field{.key = w.inner,
          .help = gpt2 ? "width of the feed-forward part F; 0: 4 times the width"
                       : "width of the feed-forward part F; 0: 8/3 of the width, in 64s",
          .also = "intermediate_size n_inner ffn_hidden_size intermediate_dim base_mlp_dim",
          .min = 0,
          .max = 1 << 24});
}

template <class V>
void visit_arithmetic(ModelSpec& b, V&& v) {
  const bool gpt2 = b.family == "gpt2";
  const ModelWords& w = gpt2 ? kGpt2Words : kLlamaWords;
  v(b.activation, Field{.key = w.activation,
                        .help = "of the feed-forward part",
                        .also = "activation_function hidden_act hidden_activation"});
  v(b.norm_eps, Field{.key = w.eps,
                      .help = "added to the variance in norms",
                      .also = "layer_norm_epsilon rms_norm_eps norm_eps layernorm_epsilon norm_epsilon",
                      .min = 0,
                      .max = 1});
  if (!gpt2) {
    v(b.rope_theta, Field{.key = "rope_theta",
                          .help = "base of the rotary frequencies",
                          .also = "rotary_base rope_base rope_max_timescale",
                          .min = 1});
    v(b.rope_scaling,
      Field{.key = "rope_scaling", .help = "stretched frequencies as Llama 3.1", .unset = "none"});
    v(b.qkv_bias, Field{.key = "attention_bias",
                        .help = "query, key and value have biases, as Qwen 2",
                        .also = "qkv_bias add_qkv_bias"});
  } else {
    v(b.bias, Field{.key = "bias", .help = "linears and norms have biases"});
  }
  v(b.tie_word_embeddings,
    Field{
        .key = "tie_word_embeddings", .help = "the output head is the embedding", .also = "tie_embeddings"});
  v(b.dropout, Field{.key = "resid_pdrop",
                     .help = "dropout of what joins the residual stream",
                     .also = "hidden_dropout residual_dropout",
                     .min = 0,
                     .max = 1,
                     .open = true});
  v(b.embedding_dropout, Field{.key = "embd_pdrop",
                               .help = "dropout after the embedding",
                               .also = "emb_pdrop",
                               .min = 0,
                               .max = 1,
                               .open = true});
  v(b.attention_dropout, Field{.key = gpt2 ? "attn_pdrop" : "attention_dropout",
                               .help = "dropout of attention weights; only 0 is supported",
                               .also = "attention_dropout attn_pdrop",
                               .min = 0,
                               .max = 1,
                               .open = true});
  v(b.initializer_range, Field{.key = "initializer_range",
                               .help = "standard deviation of the first weights",
                               .also = "init_method_std",
                               .min = 0,
                               .max = 10});
}

template <class V>
void visit(ModelSpec& b, V&& v) {
  visit_sizes(b, v);
  visit_arithmetic(b, v);
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
void visit(TrainSpec& b, V&& v) {
  v(b.global_batch_size, Field{.key = "global_batch_size",
                               .help = "samples of a step",
                               .also = "train_batch_size global_train_batch_size",
                               .unit = Unit::kCount,
                               .min = 1,
                               .unset = "chosen, or from global_batch_tokens"});
  v(b.global_batch_tokens, Field{.key = "global_batch_tokens",
                                 .help = "tokens of a step, instead",
                                 .also = "num_tokens_per_train_step total_batch_size",
                                 .unit = Unit::kCount,
                                 .min = 1,
                                 .unset = "not used"});
  v(b.micro_batch_size,
    Field{
        .key = "micro_batch_size",
        .help = "samples of one pass of one rank",
        .also =
            "local_batch_size device_train_microbatch_size train_micro_batch_size_per_gpu "
            "train_micro_batch_size per_device_batch_size per_device_train_batch_size per_device_parallelism "
            "device_batch_size batch_size",
        .unit = Unit::kCount,
        .min = 1,
        .unset = "what fits and is fastest",
        .word = "auto"});
  v(b.max_micro_batch_size, Field{.key = "max_micro_batch_size",
                                  .help = "limit of what auto may choose",
                                  .unit = Unit::kCount,
                                  .min = 1,
                                  .unset = "none"});
  v(b.train_steps, Field{.key = "train_steps",
                         .help = "stop after so many steps",
                         .also = "train_iters max_steps max_iters num_iterations num_train_steps steps",
                         .unit = Unit::kCount,
                         .min = 0,
                         .unset = "no limit"});
  v(b.train_tokens, Field{.key = "train_tokens",
                          .help = "stop after so many tokens",
                          .also = "max_tokens",
                          .unit = Unit::kCount,
                          .min = 1,
                          .unset = "no limit"});
  v(b.max_time, Field{.key = "max_time",
                      .help = "stop after this time, s",
                      .unit = Unit::kSeconds,
                      .min = 0,
                      .unset = "no limit"});
  v(b.max_cost,
    Field{.key = "max_cost", .help = "stop after this much money", .min = 0, .unset = "no limit"});
  v(b.max_kwh, Field{.key = "max_kwh", .help = "stop after this energy, kWh", .min = 0, .unset = "no limit"});
  v(b.deadline, Field{.key = "deadline", .help = "stop at this date and time, ISO 8601; empty: none"});
  v(b.target_loss, Field{.key = "target_loss",
                         .help = "stop when the validation loss is this low",
                         .also = "target_eval_loss",
                         .min = 0,
                         .unset = "none"});
  v(b.log_interval, Field{.key = "log_interval",
                          .help = "steps from one plain line to the next",
                          .also = "log_freq log_period steps_per_print console_log_interval "
                                  "iteration_step_info_interval log_every",
                          .min = 1});
  v(b.init_from, Field{.key = "init_from",
                       .help = "folder with config.json and model.safetensors to start from",
                       .also = "pretrained_checkpoint initial_load_path initial_checkpoint_dir"});
}

template <class V>
void visit(OptimizerSpec& b, V&& v) {
  v(b.name, Field{.key = "name", .help = "optimizer", .also = "optimizer optimizer_type type opt_type"});
  v(b.learning_rate,
    Field{.key = "learning_rate", .help = "peak", .also = "lr max_lr", .min = 0, .max = 1000});
  v(b.adam_beta1, Field{.key = "adam_beta1",
                        .help = "decay of the mean of gradients",
                        .also = "beta1 adam_b1",
                        .min = 0,
                        .max = 1,
                        .open = true});
  v(b.adam_beta2, Field{.key = "adam_beta2",
                        .help = "decay of the mean of squares",
                        .also = "beta2 adam_b2",
                        .min = 0,
                        .max = 1,
                        .open = true});
  v(b.adam_eps,
    Field{.key = "adam_eps", .help = "added to the root", .also = "eps epsilon", .min = 0, .max = 1});
  v(b.weight_decay, Field{.key = "weight_decay",
                          .help = "of matrices and embeddings alone",
                          .also = "adam_weight_decay",
                          .min = 0,
                          .max = 100});
  v(b.clip_grad, Field{.key = "clip_grad",
                       .help = "largest norm of all gradients; 0: no limit",
                       .also = "max_norm gradient_clipping grad_clip max_grad_norm clipping_threshold "
                               "gradient_clipping_threshold clip_norm",
                       .min = 0});
  v(b.state_dtype, Field{.key = "state_dtype", .help = "of the two moments"});
  v(b.ema_decay, Field{.key = "ema_decay",
                       .help = "decay of an average of the weights",
                       .min = 0,
                       .max = 1,
                       .open = true,
                       .unset = "no average"});
  v(b.offload, Field{.key = "offload",
                     .help = "optimizer state lies in the memory of the host",
                     .also = "optimizer_cpu_offload offload_optimizer"});
}

template <class V>
void visit(ScheduleSpec& b, V&& v) {
  v(b.lr_schedule, Field{.key = "lr_schedule",
                         .help = "of the learning rate after the warm-up",
                         .also = "lr_decay_style lr_schedule_type lr_scheduler_type scheduler_name"});
  v(b.warmup_steps, Field{.key = "warmup_steps",
                          .help = "steps from 0 to the peak",
                          .also = "lr_warmup_iters lr_warmup_steps warmup_num_steps warmup_iters warmup",
                          .unit = Unit::kCount,
                          .min = 0,
                          .unset = "1 % of the steps"});
  v(b.min_lr, Field{.key = "min_lr",
                    .help = "where the schedule ends",
                    .also = "min_decay_lr",
                    .min = 0,
                    .max = 1000,
                    .unset = "0.1 of the peak"});
  v(b.wsd_decay_steps, Field{.key = "wsd_decay_steps",
                             .help = "steps of the fall that ends wsd",
                             .also = "lr_wsd_decay_iters lr_decay_steps",
                             .unit = Unit::kCount,
                             .min = 0,
                             .unset = "the last 20 % of the steps"});
  v(b.decay_style, Field{.key = "decay_style",
                         .help = "shape of the fall that ends wsd",
                         .also = "lr_wsd_decay_style decay_type"});
}

template <class V>
void visit(ParallelSpec& b, V&& v) {
  v(b.automatic, Field{.key = "auto", .help = "let ingot plan choose the layout"});
  v(b.dp, Field{.key = "dp",
                .help = "data parallel degree",
                .also = "data_parallel_size data_parallel_degree data_parallel_replicate_degree",
                .min = 1,
                .max = 1 << 24,
                .unset = "what the others leave"});
  v(b.tp, Field{.key = "tp",
                .help = "tensor parallel degree",
                .also = "tensor_parallel_size tensor_model_parallel_size tensor_parallel_degree autotp_size "
                        "ici_tensor_parallelism",
                .min = 1,
                .max = 1 << 20});
  v(b.pp, Field{.key = "pp",
                .help = "pipeline stages",
                .also = "pipeline_parallel_size pipeline_model_parallel_size pipeline_parallel_degree "
                        "ici_pipeline_parallelism",
                .min = 1,
                .max = 1 << 20});
  v(b.cp, Field{.key = "cp",
                .help = "context parallel degree",
                .also = "context_parallel_size context_parallel_degree sequence_parallel_size "
                        "ici_context_parallelism",
                .min = 1,
                .max = 1 << 20});
  v(b.ep, Field{.key = "ep",
                .help = "expert parallel degree",
                .also = "expert_parallel_size expert_model_parallel_size expert_parallel_degree autoep_size "
                        "ici_expert_parallelism",
                .min = 1,
                .max = 1 << 20});
  v(b.order, Field{.key = "order", .help = "axes from the fastest link to the slowest; empty: tp cp dp pp"});
  v(b.zero_stage, Field{.key = "zero_stage",
                        .help = "0 to 3: what dp ranks share out",
                        .also = "stage zero",
                        .min = 0,
                        .max = 3,
                        .unset = "1 when dp > 1"});
  v(b.zero_group, Field{.key = "zero_group",
                        .help = "ranks that share out among themselves",
                        .min = 1,
                        .unset = "all of dp"});
  v(b.pp_schedule, Field{.key = "pp_schedule",
                         .help = "order of forwards and backwards in a pipeline",
                         .also = "pipeline_parallel_schedule pp_engine"});
  v(b.virtual_stages, Field{.key = "virtual_stages",
                            .help = "pieces of a stage in the interleaved schedule",
                            .also = "virtual_pipeline_model_parallel_size",
                            .min = 1,
                            .max = 1024});
  v(b.cp_mode, Field{.key = "cp_mode", .help = "how attention crosses ranks", .also = "cp_comm_type"});
  v(b.recompute, Field{.key = "recompute",
                       .help = "forward work done again to save memory",
                       .also = "recompute_granularity remat_policy mode"});
  v(b.grad_reduce_dtype, Field{.key = "grad_reduce_dtype",
                               .help = "of gradients while they are summed",
                               .also = "mixed_precision_reduce"});
  v(b.bucket_size, Field{.key = "bucket_size",
                         .help = "gradients sent at once",
                         .also = "reduce_bucket_size",
                         .unit = Unit::kBytes,
                         .min = 1});
  v(b.comm_timeout, Field{.key = "comm_timeout",
                          .help = "longest wait for another rank, s",
                          .unit = Unit::kSeconds,
                          .min = 0.001});
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
