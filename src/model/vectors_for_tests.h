#pragma once
// Published models with their parameter counts: computed by hand from the published sizes, and where marked
// printed by others too. Tests only.

#include <string>
#include <vector>

#include "spec/spec.h"

namespace ingot::model {

struct PublishedModel {
  std::string name;
  spec::ModelSpec spec;
  int64_t parameters = 0;
};

inline spec::ModelSpec gpt2_spec(int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary,
                                 int64_t positions, bool bias = true) {
  spec::ModelSpec model = spec::default_model("gpt2");
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_heads = heads;
  model.vocab_size = vocabulary;
  model.max_positions = positions;
  model.bias = bias;
  return model;
}

inline spec::ModelSpec llama_spec(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads,
                                  int64_t ffn, int64_t vocabulary, bool tied = false, int64_t head_dim = 0) {
  spec::ModelSpec model = spec::default_model("llama");
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_heads = heads;
  model.num_kv_heads = kv_heads;
  model.intermediate_size = ffn;
  model.vocab_size = vocabulary;
  model.tie_word_embeddings = tied;
  model.head_dim = head_dim;
  return model;
}

inline std::vector<PublishedModel> published_models() {
  spec::ModelSpec qwen = llama_spec(24, 896, 14, 2, 4864, 151936, true);
  qwen.qkv_bias = true;
  return {
      {"GPT-2 small", gpt2_spec(12, 768, 12, 50257, 1024), 124'439'808},
      {"GPT-2 medium", gpt2_spec(24, 1024, 16, 50257, 1024), 354'823'168},
      {"GPT-2 large", gpt2_spec(36, 1280, 20, 50257, 1024), 774'030'080},
      {"GPT-2 XL", gpt2_spec(48, 1600, 25, 50257, 1024), 1'557'611'200},
      {"GPT-2 small, padded", gpt2_spec(12, 768, 12, 50304, 1024), 124'475'904},
      {"GPT-2 medium, padded", gpt2_spec(24, 1024, 16, 50304, 1024), 354'871'296},
      {"GPT-2 large, padded", gpt2_spec(36, 1280, 20, 50304, 1024), 774'090'240},
      {"GPT-2 XL, padded", gpt2_spec(48, 1600, 25, 50304, 1024), 1'557'686'400},
      {"GPT-3 125M, padded", gpt2_spec(12, 768, 12, 50304, 2048), 125'262'336},
      {"Llama 2 7B", llama_spec(32, 4096, 32, 32, 11008, 32000), 6'738'415'616},
      {"Llama 2 13B", llama_spec(40, 5120, 40, 40, 13824, 32000), 13'015'864'320},
      {"Llama 2 70B", llama_spec(80, 8192, 64, 8, 28672, 32000), 68'976'648'192},
      {"Llama 3 8B", llama_spec(32, 4096, 32, 8, 14336, 128256), 8'030'261'248},
      {"Llama 3 70B", llama_spec(80, 8192, 64, 8, 28672, 128256), 70'553'706'496},
      {"Llama 3.1 405B", llama_spec(126, 16384, 128, 8, 53248, 128256), 405'853'388'800},
      {"Llama 3.2 1B", llama_spec(16, 2048, 32, 8, 8192, 128256, true), 1'235'814'400},
      {"Llama 3.2 3B", llama_spec(28, 3072, 24, 8, 8192, 128256, true), 3'212'749'824},
      {"TinyLlama", llama_spec(22, 2048, 32, 4, 5632, 32000), 1'100'048'384},
      {"Mistral 7B", llama_spec(32, 4096, 32, 8, 14336, 32000), 7'241'732'096},
      {"Qwen 2.5 0.5B", qwen, 494'032'768},
      {"SmolLM2 135M", llama_spec(30, 576, 9, 3, 1536, 49152, true), 134'515'008},
      {"SmolLM2 360M", llama_spec(32, 960, 15, 5, 2560, 49152, true), 361'821'120},
      {"SmolLM2 1.7B", llama_spec(24, 2048, 32, 32, 8192, 49152, true), 1'711'376'384},
      {"MPT 125M", gpt2_spec(12, 768, 12, 50368, 2048), 125'311'488},
      {"MPT 350M", gpt2_spec(24, 1024, 16, 50368, 2048), 355'985'408},
      {"MPT 760M", gpt2_spec(24, 1536, 12, 50368, 2048), 760'470'528},
      {"MPT 1B", gpt2_spec(24, 2048, 16, 50368, 2048), 1'315'950'592},
      {"MPT 3B", gpt2_spec(32, 2560, 20, 50368, 2048), 2'651'837'440},
      {"MPT 7B", gpt2_spec(32, 4096, 32, 50368, 2048), 6'658'859'008},
      {"MPT 13B", gpt2_spec(40, 5120, 40, 50368, 2048), 12'853'954'560},
      {"MPT 30B", gpt2_spec(48, 7168, 56, 50368, 2048), 29'975'214'080},
      {"MPT 70B", gpt2_spec(80, 8192, 64, 50368, 2048), 64'862'437'376},
      {"nanoGPT characters", gpt2_spec(6, 384, 6, 65, 256, false), 10'745'088},
      {"nanoGPT characters, CPU", gpt2_spec(4, 128, 4, 65, 64, false), 804'096},
  };
}

}  // namespace ingot::model
