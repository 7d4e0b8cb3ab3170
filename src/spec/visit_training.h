#pragma once
// The visits of the blocks train, optimizer, schedule and parallel (visit.h says what a visit is).

#include <string_view>

#include "spec/field_types.h"
#include "spec/spec.h"

namespace ingot::spec {

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
                         .min = 1,
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
                      .min = 1,
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

}  // namespace ingot::spec
