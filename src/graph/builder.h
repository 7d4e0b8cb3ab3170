#pragma once
// What a model family writes with: parameters by named axes and coarse operations. The builder knows whether
// the graph is for training, evaluation or decoding, and keeps batch fields, caches and dropout sites out of
// the family's sight. No method takes a mesh, a data type or a rank.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "graph/program.h"

namespace ingot::graph {

struct BuildOptions {
  Purpose purpose = Purpose::kTrain;
  int64_t batch = 1;     // B
  int64_t sequence = 1;  // T; in decoding the tokens given at once
  int64_t cache = 0;     // S, decoding only
  int layers = 0;        // L
};

struct ParameterOptions {
  std::string name{};
  HuggingFaceName hugging_face{};
  Shape shape{};
  std::vector<AxisName> axes{};
  Init init{};
  bool decay = false;
};

struct AttentionOptions {
  int head_dim = 0;
  double scale = 0;  // 0: 1/sqrt(head_dim)
};

struct RotaryOptions {
  int head_dim = 0;
  double theta = 10000;
  double factor = 0, low = 0, high = 0, original = 0;  // Llama 3 scaling, off when factor is 0
  bool document_positions = false;
};

class Builder {
 public:
  Builder(Graph& graph, const BuildOptions& options);

  void layer(
      int index);  // nodes and parameters from here on belong to this layer; -1 before, L after the last
  ValueId parameter(const ParameterOptions& options);  // the same name twice is the same parameter
  ValueId tokens();
  ValueId position();

  ValueId embed(ValueId ids, ValueId table);
  ValueId linear(ValueId x, ValueId weight, std::optional<ValueId> bias = std::nullopt);
  ValueId layer_norm(ValueId x, ValueId weight, std::optional<ValueId> bias, double epsilon);
  ValueId rms_norm(ValueId x, ValueId weight, double epsilon);
  ValueId rotary(ValueId x, const RotaryOptions& options);
  ValueId attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options);
  ValueId activation(ValueId x, ActivationKind kind);
  ValueId swiglu(ValueId gate, ValueId up);
  ValueId add(ValueId a, ValueId b);
  ValueId dropout(ValueId x, double rate);  // x itself when the rate is 0 or the graph is not for training
  // The end of the model: the loss, or in decoding the logits [B, T, V] (value "logits").
  void head(ValueId x, ValueId weight);

 private:
  // Batch fields are made when first asked: role kData, names "batch.tokens", "batch.labels",
  // "batch.loss_mask", "batch.position", "batch.doc_start", "batch.sample". Caches are kState
  // "cache.k.<layer>", "cache.v.<layer>"; control blocks kState "control.sums", "control.scalars" (passes add
  // "control.step").
  ValueId batch_field(const std::string& name, DType dtype);
  ValueId state(const std::string& name, const Shape& shape, DType dtype);
  ValueId node(Op op, std::vector<ValueId> inputs, const Attributes& attributes = {});
  ValueId cached_attention(ValueId q, ValueId k, ValueId v, const Attributes& attributes);

  Graph& graph_;
  BuildOptions options_;
  int layer_ = -1;
  uint64_t next_site_ = 0;
  std::map<std::string, ValueId, std::less<>> named_;
};

}  // namespace ingot::graph
