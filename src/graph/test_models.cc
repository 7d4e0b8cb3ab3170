#include "graph/test_models.h"

#include <fmt/format.h>

namespace ingot::graph {
namespace {

class TestBuilder {
 public:
  TestBuilder(Graph& graph, const TestModel& model, Purpose purpose)
      : model_(model), builder_(graph, options_of(model, purpose)) {}

  void run() {
    const int64_t c = model_.channels;
    builder_.layer(-1);
    const ValueId table =
        parameter("wte.weight", {model_.vocabulary, c}, {AxisName::kVocab, AxisName::kEmbed});
    ValueId x = builder_.embed(builder_.tokens(), table);
    if (!model_.llama) {
      const ValueId positions =
          parameter("wpe.weight", {model_.context, c}, {AxisName::kNone, AxisName::kEmbed});
      x = builder_.add(x, builder_.embed(builder_.position(), positions));
      x = builder_.dropout(x, model_.dropout);
    }
    for (int layer = 0; layer < static_cast<int>(model_.layers); ++layer) x = block(x, layer);
    builder_.layer(static_cast<int>(model_.layers));
    x = norm(x, "ln_f");
    const ValueId head = model_.tied ? table
                                     : parameter("lm_head.weight", {model_.vocabulary, c},
                                                 {AxisName::kVocab, AxisName::kEmbed});
    builder_.head(x, head);
  }

 private:
  static BuildOptions options_of(const TestModel& model, Purpose purpose) {
    BuildOptions options;
    options.purpose = purpose;
    options.batch = model.batch;
    options.sequence = model.sequence;
    options.cache = model.context;
    options.layers = static_cast<int>(model.layers);
    return options;
  }

  ValueId parameter(const std::string& name, Shape shape, std::vector<AxisName> axes) {
    ParameterOptions options;
    options.name = name;
    options.shape = shape;
    options.axes = std::move(axes);
    options.decay = shape.rank() == 2;
    return builder_.parameter(options);
  }

  ValueId norm(ValueId x, const std::string& name) {
    const ValueId weight = parameter(name + ".weight", {model_.channels}, {AxisName::kEmbed});
    if (model_.llama) return builder_.rms_norm(x, weight, 1e-5);
    return builder_.layer_norm(x, weight, parameter(name + ".bias", {model_.channels}, {AxisName::kEmbed}),
                               1e-5);
  }

  ValueId linear(ValueId x, const std::string& name, int64_t out, int64_t in, AxisName rows,
                 AxisName columns) {
    const ValueId weight = parameter(name + ".weight", {out, in}, {rows, columns});
    if (model_.llama) return builder_.linear(x, weight);
    return builder_.linear(x, weight, parameter(name + ".bias", {out}, {rows}));
  }

  ValueId block(ValueId x, int layer) {
    builder_.layer(layer);
    const std::string h = fmt::format("h.{}.", layer);
    const int64_t c = model_.channels, d = c / model_.heads, kv = model_.kv_heads * d;
    const auto embed = AxisName::kEmbed;
    const ValueId n1 = norm(x, h + "ln_1");
    ValueId q = linear(n1, h + "attn.q", c, c, AxisName::kHeads, embed);
    ValueId k = linear(n1, h + "attn.k", kv, c, AxisName::kKvHeads, embed);
    const ValueId v = linear(n1, h + "attn.v", kv, c, AxisName::kKvHeads, embed);
    if (model_.llama) {
      RotaryOptions rotary;
      rotary.head_dim = static_cast<int>(d);
      q = builder_.rotary(q, rotary);
      k = builder_.rotary(k, rotary);
    }
    AttentionOptions attention;
    attention.head_dim = static_cast<int>(d);
    const ValueId o =
        linear(builder_.attention(q, k, v, attention), h + "attn.o", c, c, embed, AxisName::kHeads);
    x = builder_.add(x, builder_.dropout(o, model_.dropout));
    const ValueId n2 = norm(x, h + "ln_2");
    ValueId y = linear(n2, h + (model_.llama ? "mlp.gate" : "mlp.fc"), model_.ffn, c, AxisName::kFfn, embed);
    y = model_.llama ? builder_.swiglu(y, linear(n2, h + "mlp.up", model_.ffn, c, AxisName::kFfn, embed))
                     : builder_.activation(y, ActivationKind::kGeluTanh);
    y = linear(y, h + "mlp.proj", c, model_.ffn, embed, AxisName::kFfn);
    return builder_.add(x, builder_.dropout(y, model_.dropout));
  }

  TestModel model_;
  Builder builder_;
};

}  // namespace

Graph build_test_model(const TestModel& model, Purpose purpose) {
  Graph graph;
  TestBuilder(graph, model, purpose).run();
  return graph;
}

}  // namespace ingot::graph
