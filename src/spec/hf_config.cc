#include "spec/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "spec/assign.h"
#include "spec/fields.h"
#include "spec/names.h"

namespace ingot::spec {
namespace {

using Json = nlohmann::ordered_json;

struct ModelType {
  std::string_view name;
  std::string_view family;
  bool qkv_bias;
};
constexpr auto kModelTypes = std::to_array<ModelType>({{"gpt2", "gpt2", false},
                                                       {"llama", "llama", false},
                                                       {"mistral", "llama", false},
                                                       {"qwen2", "llama", true}});

// Words that say nothing about the shape or the arithmetic of training.
constexpr std::string_view kPassedOver =
    "_name_or_path architectures model_type torch_dtype dtype bos_token_id eos_token_id pad_token_id "
    "transformers_version use_cache pretraining_tp summary_type summary_use_proj summary_activation "
    "summary_proj_to_labels summary_first_dropout task_specific_params n_ctx gradient_checkpointing "
    "max_window_layers auto_map id2label label2id quantization_config attn_implementation "
    "_attn_implementation "
    "layer_types";

// Words that change the model unless they have this value.
struct Neutral {
  std::string_view word;
  std::string_view value;  // as JSON; null is always neutral
};
constexpr auto kNeutral = std::to_array<Neutral>({{"mlp_bias", "false"},
                                                  {"sliding_window", "null"},
                                                  {"use_sliding_window", "false"},
                                                  {"scale_attn_weights", "true"},
                                                  {"scale_attn_by_inverse_layer_idx", "false"},
                                                  {"reorder_and_upcast_attn", "false"},
                                                  {"add_cross_attention", "false"},
                                                  {"is_encoder_decoder", "false"},
                                                  {"partial_rotary_factor", "1.0"},
                                                  {"use_qk_norm", "false"}});

constexpr int kDeepest = 16;

// What lies deeper than any word of ours is dropped: a hostile file must not exhaust the stack.
Value to_value(const Json& json, const std::string& name, int depth = 0) {
  Value value;
  value.place = name;
  if (depth > kDeepest) return value;
  switch (json.type()) {
    case Json::value_t::boolean:
      value.data = json.get<bool>();
      break;
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        value.data = json.get<double>();
        break;
      }
      value.data = json.get<int64_t>();
      break;
    case Json::value_t::number_integer:
      value.data = json.get<int64_t>();
      break;
    case Json::value_t::number_float:
      value.data = json.get<double>();
      break;
    case Json::value_t::string:
      value.data = json.get<std::string>();
      break;
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(to_value(item, name, depth + 1));
      value.data = std::move(items);
      break;
    }
    case Json::value_t::object: {
      Table table;
      for (const auto& [key, item] : json.items()) table.emplace_back(key, to_value(item, name, depth + 1));
      value.data = std::move(table);
      break;
    }
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return value;
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// Newer files keep the base of the frequencies and their scaling together, with rope_type "default" for none.
void flatten_rope(Json* json) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = json->find(key);
    if (found == json->end() || !found->is_object()) continue;
    const Json inner = *found;
    json->erase(key);
    if (inner.contains("rope_theta")) (*json)["rope_theta"] = inner["rope_theta"];
    const std::string type =
        inner.contains("rope_type") ? text_of(inner, "rope_type") : text_of(inner, "type");
    if (type != "default") (*json)["rope_scaling"] = inner;
  }
}

bool is_neutral(const Json& value, const Neutral& neutral) {
  return value.is_null() || value == Json::parse(neutral.value);
}

// Splits the words of the file into those that a model block has and those that it has not.
Table model_words(const Json& json, const std::string& name, Assignment* out) {
  RunSpec spec;
  spec.model.family = "gpt2";
  std::vector<BoundField> fields = bind_fields(&spec);
  RunSpec other;
  for (BoundField& field : bind_fields(&other)) fields.push_back(field);
  Table words;
  for (const auto& [key, item] : json.items()) {
    const std::string word = key;
    const auto* neutral =
        std::find_if(kNeutral.begin(), kNeutral.end(), [&](const Neutral& n) { return n.word == word; });
    if (neutral != kNeutral.end()) {
      if (!is_neutral(item, *neutral)) {
        out->mistakes.push_back({name, word + " = " + value_text(to_value(item, name)),
                                 fmt::format("is not supported; only {} is", neutral->value)});
      }
      continue;
    }
    if (has_word(kPassedOver, word) || item.is_null() || word == "family" || word == "from") continue;
    const bool known = std::any_of(fields.begin(), fields.end(), [&](const BoundField& field) {
      return field.block == "model" && (field.info.key == word || field.is_also(word));
    });
    if (known) {
      words.emplace_back(word, to_value(item, name));
    } else {
      out->notes.push_back(fmt::format("{}: {} is not known here and is passed over", name, word));
    }
  }
  return words;
}

// What must be there: without it Hugging Face's own defaults would decide in silence.
void require_sizes(const ModelSpec& model, const std::string& name, Assignment* out) {
  const bool gpt2 = model.family == "gpt2";
  const auto need = [&](int64_t value, const char* word) {
    if (value <= 0) out->mistakes.push_back({name, word, "is missing"});
  };
  need(model.vocab_size, "vocab_size");
  need(model.hidden_size, gpt2 ? "n_embd" : "hidden_size");
  need(model.num_layers, gpt2 ? "n_layer" : "num_hidden_layers");
  need(model.num_heads, gpt2 ? "n_head" : "num_attention_heads");
  if (!gpt2) need(model.intermediate_size, "intermediate_size");
}

void set_defaults_of_type(const std::string& type, ModelSpec* model) {
  model->max_positions = type == "gpt2" ? 1024 : type == "llama" ? 2048 : 32768;
  if (type == "mistral") model->max_positions = 4096 * 32;
}

}  // namespace

Result<HfModel> parse_hf_config(const std::string& text, const std::string& name) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return invalid(
        fmt::format("{}: this is not a JSON object; a config.json of Hugging Face is wanted", name));
  }
  const std::string type = text_of(json, "model_type");
  const auto* found = std::find_if(kModelTypes.begin(), kModelTypes.end(),
                                   [&](const ModelType& one) { return one.name == type; });
  if (found == kModelTypes.end()) {
    return invalid(fmt::format(
        "{}: model_type = \"{}\" is not supported; there are gpt2, llama, mistral, qwen2", name, type));
  }
  RunSpec spec;
  spec.model = default_model(std::string(found->family));
  set_defaults_of_type(type, &spec.model);
  Assignment assigned;
  if (json.contains("attention_bias")) {
    // Llama's attention_bias gives the output projection one as well, which no family here has.
    const bool refused = !found->qkv_bias && json["attention_bias"] == true;
    if (refused) {
      assigned.mistakes.push_back({name, "attention_bias = true",
                                   "is not supported for model_type llama: the output "
                                   "projection has no bias here"});
    }
    json.erase("attention_bias");
  }
  if (!json.contains("use_sliding_window") || json["use_sliding_window"] == false) {
    if (type == "qwen2") json.erase("sliding_window");
  }
  flatten_rope(&json);
  assign_block("model", model_words(json, name, &assigned), &spec, &assigned);
  spec.model.qkv_bias = found->qkv_bias;
  require_sizes(spec.model, name, &assigned);
  if (!assigned.mistakes.empty()) return invalid(render_mistakes(assigned.mistakes));
  resolve_model(&spec.model);
  return HfModel{spec.model, assigned.notes};
}

Result<HfModel> read_hf_config(const std::string& path) {
  std::string file = path;
  if (path_exists(path + "/config.json")) file = path + "/config.json";
  INGOT_TRY(const std::string text, read_file(file));
  return parse_hf_config(text, file);
}

std::string write_hf_config(const ModelSpec& model) {
  INGOT_CHECK(model.is_sized() && model.head_dim > 0 && model.vocab_size > 0,
              "export of an unresolved model: width {}, head {}, vocabulary {}", model.hidden_size,
              model.head_dim, model.vocab_size);
  Json json;
  if (model.family == "gpt2") {
    json["architectures"] = {"GPT2LMHeadModel"};
    json["model_type"] = "gpt2";
  } else {
    json["architectures"] = {model.qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM"};
    json["model_type"] = model.qkv_bias ? "qwen2" : "llama";
  }
  json["vocab_size"] = model.vocab_size;
  const bool gpt2 = model.family == "gpt2";
  json[gpt2 ? "n_positions" : "max_position_embeddings"] = model.max_positions;
  json[gpt2 ? "n_embd" : "hidden_size"] = model.hidden_size;
  json[gpt2 ? "n_layer" : "num_hidden_layers"] = model.num_layers;
  json[gpt2 ? "n_head" : "num_attention_heads"] = model.num_heads;
  json[gpt2 ? "n_inner" : "intermediate_size"] = model.intermediate_size;
  json[gpt2 ? "activation_function" : "hidden_act"] = std::string(name_of(model.activation));
  json[gpt2 ? "layer_norm_epsilon" : "rms_norm_eps"] = model.norm_eps;
  if (gpt2) {
    if (!model.bias) json["bias"] = false;  // no word of Hugging Face: its GPT-2 always has biases
    json["attn_pdrop"] = model.attention_dropout;
  } else {
    json["num_key_value_heads"] = model.num_kv_heads;
    json["head_dim"] = model.head_dim;
    json["rope_theta"] = model.rope_theta;
    if (model.rope_scaling) {
      json["rope_scaling"] = {
          {"rope_type", "llama3"},
          {"factor", model.rope_scaling->factor},
          {"low_freq_factor", model.rope_scaling->low_freq_factor},
          {"high_freq_factor", model.rope_scaling->high_freq_factor},
          {"original_max_position_embeddings", model.rope_scaling->original_max_position_embeddings}};
    }
    json["attention_dropout"] = model.attention_dropout;
  }
  json["tie_word_embeddings"] = model.tie_word_embeddings;
  // Words of GPT-2 that other families' readers pass over.
  if (gpt2 || model.dropout > 0) json["resid_pdrop"] = model.dropout;
  if (gpt2 || model.embedding_dropout > 0) json["embd_pdrop"] = model.embedding_dropout;
  json["initializer_range"] = model.initializer_range;
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

}  // namespace ingot::spec
