#pragma once
// A model to and from a Hugging Face folder: config.json, model.safetensors, tokenizer.json.

#include <string>

#include "checkpoint/formats/hugging_face.h"
#include "spec/spec.h"
#include "train/weights.h"

namespace ingot::train {

// Where each parameter of `model` lies in its family's published checkpoints.
Result<std::vector<checkpoint::TensorMapping>> hugging_face_table(const spec::ModelSpec& model);

// Fills the parameters of the ranks here from such a folder. Errors: its config.json is of another shape;
// tensors are missing, unexpected or mis-shaped (all at once).
Result<void> init_from_folder(Weights& weights, const spec::ModelSpec& model, const std::string& folder);

struct HubExport {
  std::string folder, tokenizer_json;
  bool bf16 = false, replace = false;
};
// From the "model" group of a checkpoint.
Result<checkpoint::ExportReport> export_folder(const checkpoint::Checkpoint& saved,
                                               const spec::ModelSpec& model, const HubExport& options);

}  // namespace ingot::train
