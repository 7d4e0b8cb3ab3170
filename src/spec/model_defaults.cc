#include "spec/spec.h"

namespace ingot::spec {

ModelSpec default_model(const std::string& family) {
  ModelSpec model;
  if (!family.empty()) model.family = family;
  if (family == "gpt2") {
    model.activation = Activation::kGeluTanh;
    model.norm_eps = 1e-5;
    model.tie_word_embeddings = true;
    model.bias = true;
  }
  return model;
}

void resolve_model(ModelSpec* model) {
  if (model->hidden_size <= 0 || model->num_heads <= 0) return;
  if (model->num_kv_heads == 0) model->num_kv_heads = model->num_heads;
  if (model->head_dim == 0 && model->hidden_size % model->num_heads == 0) {
    model->head_dim = model->hidden_size / model->num_heads;
  }
  if (model->intermediate_size == 0) {
    const int64_t c = model->hidden_size;
    model->intermediate_size = model->family == "gpt2" ? 4 * c : (8 * c / 3 + 63) / 64 * 64;
  }
}

}  // namespace ingot::spec
