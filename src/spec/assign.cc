#include "spec/assign.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <sstream>

#include "base/units.h"
#include "spec/fields.h"

namespace ingot::spec {
namespace {

// Words of other engines that mean something else than any key of ours, with what to write instead.
struct Hint {
  std::string_view spelling;
  std::string_view text;
};
constexpr auto kHints = std::to_array<Hint>({
    {"gradient_accumulation_steps",
     "follows from the batch: set train.global_batch_size (samples of a step)"},
    {"batch_accumulation_per_replica",
     "follows from the batch: set train.global_batch_size (samples of a step)"},
    {"min_lr_factor", "is a ratio there; write the rate itself as schedule.min_lr"},
    {"min_lr_ratio", "is a ratio there; write the rate itself as schedule.min_lr"},
    {"learning_rate_final_fraction", "is a ratio there; write the rate itself as schedule.min_lr"},
    {"alpha_f", "is a ratio there; write the rate itself as schedule.min_lr"},
    {"warmup_ratio", "is a ratio there; write the steps as schedule.warmup_steps"},
    {"warmup_steps_fraction", "is a ratio there; write the steps as schedule.warmup_steps"},
    {"decay_ratio", "is a ratio there; write the steps as schedule.wsd_decay_steps"},
    {"decay_lr", "write schedule.lr_schedule = \"cosine\" or \"constant\""},
    {"betas", "write optimizer.adam_beta1 and optimizer.adam_beta2"},
    {"dropout",
     "write model.resid_pdrop and model.embd_pdrop; dropout of attention weights is not supported"},
    {"eval_iters", "counts batches there; write eval.eval_tokens (tokens), or leave it out for all"},
    {"eval_steps", "counts batches there; write eval.eval_tokens (tokens), or leave it out for all"},
    {"bf16", "write run.precision = \"bf16\""},
    {"fp16", "write run.precision = \"fp16\""},
    {"fp8", "write run.precision = \"fp8\""},
    {"always_save_checkpoint", "checkpoints follow checkpoint.save_interval and checkpoint.keep_last"},
    {"compile", "needs no word: every step is compiled"},
    {"train_samples", "counts samples there; write train.train_tokens or train.train_steps"},
    {"use_distributed_optimizer", "write parallel.zero_stage = 1"},
    {"sharding_strategy", "write parallel.zero_stage: 1 optimizer, 2 and gradients, 3 and weights"},
    {"data_parallel_shard_degree", "write parallel.dp and parallel.zero_stage = 3"},
    {"expansion_ratio", "is a ratio there; write the width as model.intermediate_size (n_inner in gpt2)"},
    {"flavor", "write the sizes of the model, or model.from = \"config.json\""},
    {"load", "write checkpoint.resume = \"<folder>\""},
    {"save", "write run.dir; checkpoints lie in its checkpoints/"},
});

bool is_own_block(const std::string& name) {
  const auto& blocks = block_names();
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockName& b) { return b.name == name; });
}

// The block that another engine calls `name`; empty when none.
std::string block_also(const std::string& name) {
  for (const BlockName& block : block_names()) {
    if (has_word(block.also, name)) return block.name;
  }
  return "";
}

// nearest_name among the words of a blank-separated list.
std::string nearest_word(const std::string& name, std::string_view list) {
  std::istringstream in{std::string(list)};
  return nearest_name(name, {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()});
}

class Assigner {
 public:
  Assigner(RunSpec* spec, Assignment* out) : fields_(bind_fields(spec)), out_(out) {}

  // `written` is the block as the file has it: "" outside of any, or another engine's name.
  void assign_all(const std::string& written, const std::string& block, const Table& table) {
    for (const auto& [key, value] : table) assign(written, block, key, value);
  }

  void mistake(const Value& value, std::string subject, std::string text) {
    out_->mistakes.push_back({value.place, std::move(subject), std::move(text)});
  }

 private:
  void assign(const std::string& written, const std::string& block, const std::string& key,
              const Value& value) {
    const std::string full = written.empty() ? key : written + "." + key;
    if (BoundField* field = find_in(block, key)) return set(field, full, value);
    const Hint* hint = find_hint(key);
    if (hint != nullptr) return mistake(value, full + " = " + value_text(value), std::string(hint->text));
    if (BoundField* field = find_elsewhere(written, key)) return set(field, full, value);
    unknown(full, block, key, value);
  }

  BoundField* find_in(const std::string& block, const std::string& key) {
    for (BoundField& field : fields_) {
      if (field.block == block && field.info.key == key) return &field;
    }
    for (BoundField& field : fields_) {
      if (field.block == block && field.is_also(key)) return &field;
    }
    return nullptr;
  }

  // In a block of ours only spellings that cannot be mistaken for a key of that block may move: those with an
  // underscore, and lr. In another engine's block, and outside of any, our own names and unique words may
  // too.
  BoundField* find_elsewhere(const std::string& written, const std::string& key) {
    const bool foreign = !is_own_block(written);
    const bool specific = key.find('_') != std::string::npos || key == "lr";
    std::vector<BoundField*> found;
    for (BoundField& field : fields_) {
      if ((foreign && field.info.key == key) || ((foreign || specific) && field.is_also(key)))
        found.push_back(&field);
    }
    if (found.empty() || (!specific && found.size() > 1)) return nullptr;
    // A length that several blocks know (block_size) is the data's; the model's follows from it.
    for (BoundField* field : found) {
      if (field->info.key == key || field->block == "data") return field;
    }
    return found.front();
  }

  static const Hint* find_hint(const std::string& key) {
    for (const Hint& hint : kHints) {
      if (hint.spelling == key) return &hint;
    }
    return nullptr;
  }

  void set(BoundField* field, const std::string& full, const Value& value) {
    const std::string key = field->key();
    const std::string shown = full == key ? "" : fmt::format("; it is read as {}", key);
    if (const Wrong wrong = field->read(value)) {
      out_->failed.push_back(key);
      return mistake(value, full + " = " + value_text(value), *wrong + shown);
    }
    const auto before = set_by_.find(key);
    if (before != set_by_.end()) {
      return mistake(value, full + " = " + value_text(value),
                     fmt::format("says the same as {}; keep one of the two", before->second));
    }
    set_by_.emplace(key, full);
    if (full != key) out_->notes.push_back(fmt::format("{}: {} is read as {}", value.place, full, key));
    auto& origins = out_->origins;
    origins.erase(
        std::remove_if(origins.begin(), origins.end(), [&](const Origin& o) { return o.key == key; }),
        origins.end());
    origins.push_back({key, value.place});
  }

  void unknown(const std::string& full, const std::string& block, const std::string& key,
               const Value& value) {
    std::vector<std::string> own, all;
    for (const BoundField& field : fields_) {
      (field.block == block ? own : all).emplace_back(field.info.key);
      if (field.info.key == key) {
        return mistake(value, full, fmt::format("unknown key here; it belongs into [{}]", field.block));
      }
    }
    std::string near = nearest_name(key, own);
    for (const BoundField& field : fields_) {
      if (field.block == block && near.empty() && !nearest_word(key, field.info.also).empty())
        near = field.info.key;
    }
    if (near.empty()) {
      near = nearest_name(key, all);
      for (const BoundField& field : fields_) {
        if (!near.empty() && field.info.key == near) {
          return mistake(value, full, fmt::format("unknown key; did you mean {}?", field.key()));
        }
      }
    }
    if (near.empty()) return mistake(value, full, "unknown key; --dump-config prints all");
    mistake(value, full, fmt::format("unknown key; did you mean {}?", near));
  }

  std::vector<BoundField> fields_;
  std::map<std::string, std::string> set_by_;
  Assignment* out_;
};

}  // namespace

void assign_block(const std::string& block, const Table& table, RunSpec* spec, Assignment* out) {
  Assigner(spec, out).assign_all(block, block, table);
}

void assign_table(const Table& table, RunSpec* spec, Assignment* out) {
  Assigner assigner(spec, out);
  for (const auto& [name, value] : table) {
    const auto* keys = value.as<Table>();
    if (is_own_block(name)) {
      if (keys == nullptr) {
        assigner.mistake(value, name + " = " + value_text(value),
                         fmt::format("is a block; write [{}] and its keys", name));
        continue;
      }
      assigner.assign_all(name, name, *keys);
    } else if (const std::string block = block_also(name); keys != nullptr && !block.empty()) {
      assigner.assign_all(name, block, *keys);
    } else if (keys != nullptr) {
      std::vector<std::string> names;
      for (const BlockName& one : block_names()) names.push_back(one.name);
      const std::string near = nearest_name(name, names);
      assigner.mistake(value, "[" + name + "]",
                       near.empty() ? fmt::format("unknown block; there are {}", fmt::join(names, ", "))
                                    : fmt::format("unknown block; did you mean [{}]?", near));
    } else {
      assigner.assign_all("", "", {{name, value}});
    }
  }
}

const Value* find_value(const Table& table, const std::string& block, const std::string& key) {
  for (const auto& [name, value] : table) {
    const auto* keys = value.as<Table>();
    if (name != block || keys == nullptr) continue;
    for (const auto& [inner, item] : *keys) {
      if (inner == key) return &item;
    }
  }
  return nullptr;
}

}  // namespace ingot::spec
