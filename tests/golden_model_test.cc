// Whole models against numpy (tools/golden/models.py): logits, loss and every gradient, by the names and
// layout of Hugging Face, so that the mapping of names is proved too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "backend/backend.h"
#include "checkpoint/formats/safetensors.h"
#include "comm/comm.h"
#include "graph/compile.h"
#include "graph/ops.h"
#include "graph/passes/passes.h"
#include "model/model.h"
#include "runtime/runtime.h"
#include "spec/hf_config.h"
#include "tensor/half.h"

namespace ingot {
namespace {

using checkpoint::SafetensorsFile;
using tensor::DType;
using tensor::TensorView;

struct Case {
  std::string model;
  std::string backend;
  graph::Precision precision;
  double tolerance;
};

size_t index(int64_t i) { return static_cast<size_t>(i); }

template <class T>
std::vector<T> read(const SafetensorsFile& file, const std::string& name) {
  const auto* entry = file.view().find(name);
  INGOT_CHECK(entry != nullptr, "{} has no {}", file.path(), name);
  const auto bytes = file.view().bytes_of(*entry);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double load(const TensorView& view, int64_t i) {
  switch (view.dtype) {
    case DType::kF64:
      return view.as<double>()[i];
    case DType::kF32:
      return static_cast<double>(view.as<float>()[i]);
    case DType::kBF16:
      return static_cast<double>(tensor::float_of_bf16(view.as<uint16_t>()[i]));
    case DType::kF16:
      return static_cast<double>(tensor::float_of_f16(view.as<uint16_t>()[i]));
    default:
      INGOT_CHECK(false, "no reader for {}", tensor::name_of(view.dtype));
  }
  return 0;
}

void store(const TensorView& view, int64_t i, double value) {
  if (view.dtype == DType::kF64) {
    view.as<double>()[i] = value;
  } else {
    view.as<float>()[i] = static_cast<float>(value);
  }
}

// Where element [row, column] of a parameter lies in their tensor.
int64_t their_index(const graph::Parameter& parameter, int64_t i) {
  const graph::HuggingFaceName& theirs = parameter.hugging_face;
  const int64_t columns = parameter.logical.rank() == 2 ? parameter.logical[1] : 1;
  const int64_t row = theirs.row + i / columns, column = i % columns;
  const int64_t rows = theirs.rows == 0 ? parameter.logical[0] : theirs.rows;
  return theirs.transposed ? column * rows + row : row * columns + column;
}

class Step {
 public:
  Step(const Case& test, const SafetensorsFile& file, const spec::ModelSpec& spec, graph::Purpose purpose)
      : file_(file),
        backend_(backend::make_backend(test.backend).value()),
        world_(comm::make_local_world(1)) {
    const auto* tokens = file.view().find("batch.tokens");
    graph::BuildOptions shape{.purpose = purpose, .batch = tokens->shape[0], .sequence = tokens->shape[1]};
    shape.cache = purpose == graph::Purpose::kDecode ? shape.sequence : 0;
    graph::CompileOptions options;
    options.purpose = purpose;
    options.precision = test.precision;
    options.threads = pool_.threads();
    options.targets = {&backend_->target()};
    program_ = graph::compile(model::build_graph(spec, shape).value(), options).value();
    runtime::ExecutorOptions how;
    how.pool = &pool_;
    how.poison = true;
    executor_ = runtime::Executor::create(program_, state_, {backend_.get()}, *world_[0], how).value();
    fill();
  }

  void run() { ASSERT_TRUE(executor_->run_step(0)); }
  TensorView step_buffer(const std::string& name) const { return executor_->step_buffer(name); }
  double scalar(graph::ScalarIndex i) const { return state_.find("control.scalars").as<double>()[i]; }

  // Calls visit(parameter, its gradient) for each.
  template <class Visit>
  void for_each_gradient(const Visit& visit) const {
    for (const graph::Bucket& bucket : program_.code->buckets) {
      const TensorView whole = step_buffer(fmt::format("grad.{}", bucket.id));
      for (size_t i = 0; i < bucket.parameters.size(); ++i) {
        const graph::Parameter& parameter =
            program_.code->chunks.front().parameters[index(bucket.parameters[i])];
        visit(parameter, TensorView{whole.as<std::byte>() + bucket.offsets[i] * tensor::size_of(whole.dtype),
                                    whole.dtype, parameter.stored});
      }
    }
  }

 private:
  void fill() {
    for (const runtime::State::Entry& entry : state_.entries(program_, 0)) {
      if (entry.kind != "param") continue;
      const graph::Parameter& parameter = program_.code->chunks.front().parameters[index(entry.index)];
      const auto values = read<float>(file_, parameter.hugging_face.tensor);
      for (int64_t i = 0; i < parameter.logical.elements(); ++i)
        store(entry.view, i, static_cast<double>(values[index(their_index(parameter, i))]));
    }
    state_.touch_parameters();
    const TensorView scalars = state_.find("control.scalars");
    // Such that gradients come out as they are.
    const int64_t sequence = file_.view().find("batch.tokens")->shape[1];
    if (scalars.data != nullptr)
      scalars.as<double>()[graph::kLossScale] = 1 / graph::gradient_seed(program_.precision, sequence);
    for (const char* name : {"tokens", "labels", "position", "doc_start", "loss_mask"}) {
      const TensorView field = executor_->input(name, 0);
      if (field.data == nullptr) continue;
      const auto* entry = file_.view().find(std::string("batch.") + name);
      const auto bytes = file_.view().bytes_of(*entry);
      ASSERT_EQ(field.bytes(), static_cast<int64_t>(bytes.size())) << name;
      std::memcpy(field.data, bytes.data(), bytes.size());
    }
  }

  const SafetensorsFile& file_;
  ThreadPool pool_{2};
  std::unique_ptr<backend::Backend> backend_;
  std::vector<std::unique_ptr<comm::Transport>> world_;
  runtime::State state_;
  graph::Program program_;
  std::unique_ptr<runtime::Executor> executor_;
};

class GoldenModel : public ::testing::TestWithParam<Case> {
 protected:
  GoldenModel()
      : file_(SafetensorsFile::open(std::string(INGOT_SOURCE_DIR) + "/src/model/testdata/" +
                                    GetParam().model + ".safetensors")
                  .value()) {
    for (const auto& [key, value] : file_.view().metadata())
      if (key == "config") spec_ = spec::parse_hf_config(value, file_.path()).value().model;
  }

  SafetensorsFile file_;
  spec::ModelSpec spec_;
};

// |a - b| / |b|, or over `least` where |b| is smaller.
double relative_error(const std::vector<double>& a, const std::vector<double>& b, double least = 0) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), least);
}

TEST_P(GoldenModel, LogitsOfWholeSequences) {
  Step step(GetParam(), file_, spec_, graph::Purpose::kDecode);
  step.run();
  const TensorView logits = step.step_buffer("logits");
  const auto expected = read<double>(file_, "logits");
  ASSERT_EQ(logits.elements(), static_cast<int64_t>(expected.size()));
  std::vector<double> actual;
  for (int64_t i = 0; i < logits.elements(); ++i) actual.push_back(load(logits, i));
  EXPECT_LE(relative_error(actual, expected), GetParam().tolerance);
}

TEST_P(GoldenModel, LossAndEveryGradientOfMaskedDocuments) {
  Step step(GetParam(), file_, spec_, graph::Purpose::kTrain);
  step.run();
  const auto loss = read<double>(file_, "loss");
  EXPECT_EQ(step.scalar(graph::kLastTokens), loss[1]);
  EXPECT_NEAR(step.scalar(graph::kLastLoss), loss[0] / loss[1], GetParam().tolerance * loss[0] / loss[1]);

  double norm = 0;
  std::map<std::string, std::vector<double>> expected;
  int64_t elements = 0;
  for (const auto& entry : file_.view().entries()) {
    if (!entry.name.starts_with("grad.")) continue;
    const std::vector<double>& values = expected[entry.name] = read<double>(file_, entry.name);
    elements += static_cast<int64_t>(values.size());
    for (const double value : values) norm += value * value;
  }
  norm = std::sqrt(norm);
  step.for_each_gradient([&](const graph::Parameter& parameter, const TensorView& gradient) {
    const std::vector<double>& theirs = expected.at("grad." + parameter.hugging_face.tensor);
    std::vector<double> a, b;
    for (int64_t i = 0; i < parameter.logical.elements(); ++i) {
      a.push_back(load(gradient, i));
      b.push_back(theirs[index(their_index(parameter, i))]);
    }
    elements -= parameter.logical.elements();
    // A key bias has no gradient: its error counts against the whole.
    const bool has_gradient = relative_error(b, std::vector<double>(b.size(), 0), 1) > 1e-12 * norm;
    EXPECT_LE(relative_error(a, b, has_gradient ? 0 : norm), GetParam().tolerance) << parameter.name;
  });
  EXPECT_EQ(elements, 0) << "gradients that no parameter has";
  EXPECT_NEAR(step.scalar(graph::kLastNorm), norm / loss[1], GetParam().tolerance * norm);
}

double tolerance_of(graph::Precision precision) {
  switch (precision) {
    case graph::Precision::kF64:
      return 1e-12;
    case graph::Precision::kF32:
      return 1e-5;
    case graph::Precision::kF16:
      return 2e-2;
    case graph::Precision::kBF16:
      return 1e-1;  // 8 bits a number, and the smallest gradients are differences of large ones
  }
  return 0;
}

// Every backend that there is, in every precision that it computes in.
std::vector<Case> cases() {
  std::vector<Case> result;
  for (const backend::BackendRow& row : backend::all_backends()) {
    auto backend = backend::make_backend(row.name);
    if (!backend || (*backend)->target().space != tensor::MemorySpace{}) continue;
    for (const graph::Precision precision : (*backend)->target().precisions)
      for (const char* model : {"tiny_gpt2", "tiny_gpt2_erf", "tiny_llama", "tiny_qwen2"})
        result.push_back({model, std::string(row.name), precision, tolerance_of(precision)});
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Numpy, GoldenModel, ::testing::ValuesIn(cases()), [](const auto& test) {
  return test.param.model + "_" + test.param.backend + "_" +
         std::string(graph::name_of(test.param.precision));
});

}  // namespace
}  // namespace ingot
