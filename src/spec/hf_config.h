#pragma once
// Hugging Face config.json for the families of ModelSpec: model_type gpt2, llama, mistral (without a sliding
// window) and qwen2. Other types and values that change the model and that we lack are refused by name; words
// that say nothing about the shape are passed over.

#include <string>
#include <vector>

#include "base/result.h"
#include "spec/spec.h"

namespace ingot::spec {

struct HfModel {
  ModelSpec model;                 // resolved; attention_dropout may be above 0, which validate refuses
  std::vector<std::string> notes;  // words that are not known here
};

// `path` is the file or a folder that holds config.json.
Result<HfModel> read_hf_config(const std::string& path);
Result<HfModel> parse_hf_config(const std::string& text, const std::string& name);

// For export: reads back to the same model. The model must be sized and resolved, with a vocabulary.
std::string write_hf_config(const ModelSpec& model);

}  // namespace ingot::spec
