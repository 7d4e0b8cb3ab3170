#include "spec/hf_config.h"

#include <gtest/gtest.h>

#include <random>

#include "base/file.h"
#include "base/test_folder.h"
#include "spec/config.h"

namespace ingot::spec {
namespace {

constexpr const char* kGpt2 = R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
  "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
  "n_head": 12, "n_layer": 12,
  "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index",
  "task_specific_params": {"text-generation": {"do_sample": true}}, "vocab_size": 50257, "n_inner": null})";

constexpr const char* kLlama31 = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [1, 2], "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})";

TEST(HfConfig, ReadsGpt2) {
  const auto read = parse_hf_config(kGpt2, "config.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->notes.empty());
  const ModelSpec& m = read->model;
  EXPECT_EQ(m.family, "gpt2");
  EXPECT_EQ(m.hidden_size, 768);
  EXPECT_EQ(m.num_kv_heads, 12);
  EXPECT_EQ(m.head_dim, 64);
  EXPECT_EQ(m.intermediate_size, 3072);
  EXPECT_EQ(m.activation, Activation::kGeluTanh);
  EXPECT_TRUE(m.bias && m.tie_word_embeddings);
  EXPECT_EQ(m.attention_dropout, 0.1);
}

TEST(HfConfig, ReadsLlama31AndItsNewerForm) {
  const auto read = parse_hf_config(kLlama31, "config.json");
  ASSERT_TRUE(read) << read.error().message;
  const ModelSpec& m = read->model;
  EXPECT_EQ(m.num_kv_heads, 8);
  EXPECT_EQ(m.head_dim, 128);
  EXPECT_EQ(m.rope_theta, 500000);
  EXPECT_EQ(m.rope_scaling, (RopeScaling{8, 1, 4, 8192}));
  std::string newer = kLlama31;
  newer.replace(newer.find("\"rope_scaling\": {"), 17, "\"rope_parameters\": {\"rope_theta\": 500000.0, ");
  newer.erase(newer.find("\"rope_theta\": 500000.0, \"tie"), 24);
  const auto again = parse_hf_config(newer, "config.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->model, m);
}

TEST(HfConfig, WhatIsWrittenReadsBackTheSame) {
  std::vector<ModelSpec> models = {parse_hf_config(kGpt2, "a")->model, parse_hf_config(kLlama31, "b")->model};
  ModelSpec qwen = models[1];
  qwen.qkv_bias = true;
  qwen.tie_word_embeddings = true;
  qwen.rope_scaling.reset();
  models.push_back(qwen);
  ModelSpec nano = models[0];
  nano.bias = false;
  nano.activation = Activation::kGeluErf;
  nano.intermediate_size = 100;
  nano.attention_dropout = 0;
  models.push_back(nano);
  ModelSpec odd = models[1];
  odd.head_dim = 48;
  odd.dropout = 0.25;
  odd.embedding_dropout = 0.125;
  models.push_back(odd);
  for (const ModelSpec& model : models) {
    const auto read = parse_hf_config(write_hf_config(model), "config.json");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->model, model) << write_hf_config(model);
    EXPECT_TRUE(read->notes.empty());
  }
}

TEST(HfConfig, RefusesWhatItCannotDo) {
  const auto message = [](std::string text, const std::string& from, const std::string& to) {
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    const auto read = parse_hf_config(text, "config.json");
    return read ? "accepted" : read.error().message;
  };
  EXPECT_NE(
      message(kLlama31, "\"model_type\": \"llama\"", "\"model_type\": \"t5\"").find("model_type = \"t5\""),
      std::string::npos);
  EXPECT_NE(message(kLlama31, "\"mlp_bias\": false", "\"mlp_bias\": true").find("mlp_bias = true"),
            std::string::npos);
  EXPECT_NE(message(kLlama31, "\"rope_type\": \"llama3\"", "\"rope_type\": \"yarn\"").find("llama3 only"),
            std::string::npos);
  EXPECT_NE(message(kLlama31, "\"attention_bias\": false", "\"attention_bias\": true").find("not supported"),
            std::string::npos);
  EXPECT_NE(message(kLlama31, "\"hidden_size\": 4096,", "").find("hidden_size  is missing"),
            std::string::npos);
  EXPECT_NE(message("[1, 2]", "", "").find("not a JSON object"), std::string::npos);
  EXPECT_NE(message("", "", "").find("not a JSON object"), std::string::npos);
  const auto unknown = parse_hf_config(std::string("{\"wibble\": 1, ") + (kGpt2 + 1), "config.json");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->notes[0], "config.json: wibble is not known here and is passed over");
}

TEST(HfConfig, ModelFromAFolderAndWordsThatChangeIt) {
  const TestFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "config.json", kGpt2));
  ASSERT_TRUE(write_file_atomically(folder / "run.toml", "[model]\nfrom = \"config.json\"\nn_layer = 2\n"));
  const auto refused = load_spec(folder / "run.toml", {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("model.attn_pdrop = 0.1"), std::string::npos)
      << refused.error().message;
  const auto loaded = load_spec(folder / "run.toml", {"model.attn_pdrop=0"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->spec.model.num_layers, 2);
  EXPECT_EQ(loaded->spec.model.hidden_size, 768);
  EXPECT_EQ(parse_spec(dump_spec(loaded->spec), "dump", {})->spec, loaded->spec);
  const auto missing = parse_spec("", "run.toml", {"model.from=/nowhere"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("cannot open /nowhere"), std::string::npos)
      << missing.error().message;
}

TEST(HfConfig, DamagedTextEndsInAMessage) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text = round % 2 == 0 ? kGpt2 : kLlama31;
    for (int change = 0; change < 3; ++change) text[random() % text.size()] = static_cast<char>(random());
    const auto read = parse_hf_config(text, "fuzz");
    if (!read) {
      EXPECT_FALSE(read.error().message.empty());
    }
  }
  EXPECT_FALSE(parse_hf_config(std::string(100'000, '['), "deep"));
}

}  // namespace
}  // namespace ingot::spec
