#include "checkpoint/formats/hugging_face.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/test_folder.h"
#include "checkpoint/formats/safetensors.h"
#include "tensor/half.h"

namespace ingot::checkpoint {
namespace {

using tensor::DType;
using tensor::Shape;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// q, k and v of 70, 70 and 30 rows in one transposed matrix and one vector; a plain matrix; a scalar-like
// vector.
std::vector<TensorMapping> table() {
  return {{"embed", {9, 67}, "transformer.wte.weight"},
          {"q", {70, 67}, "transformer.h.0.attn.c_attn.weight", true, 0, 170},
          {"v", {30, 67}, "transformer.h.0.attn.c_attn.weight", true, 140, 170},
          {"k", {70, 67}, "transformer.h.0.attn.c_attn.weight", true, 70, 170},
          {"q.bias", {70}, "transformer.h.0.attn.c_attn.bias", false, 0, 170},
          {"k.bias", {70}, "transformer.h.0.attn.c_attn.bias", false, 70, 170},
          {"v.bias", {30}, "transformer.h.0.attn.c_attn.bias", false, 140, 170},
          {"norm", {67}, "transformer.ln_f.weight"}};
}

struct Parameters {
  std::map<std::string, std::vector<float>> values;
  std::vector<NamedTensor> views;

  explicit Parameters(const std::vector<TensorMapping>& rows, float scale) {
    for (const TensorMapping& row : rows) {
      auto& owned = values[row.name];
      owned.resize(static_cast<size_t>(row.shape.elements()));
      for (size_t i = 0; i < owned.size(); ++i) {
        owned[i] = scale * std::sin(static_cast<float>(i) + static_cast<float>(row.name.size()));
      }
      views.push_back({row.name, {owned.data(), DType::kF32, row.shape}});
    }
  }
};

Result<ImportReport> import_into(const std::string& path, Parameters& parameters,
                                 const ImportOptions& options,
                                 const std::vector<TensorMapping>& rows = table()) {
  const auto sink = [&](const TensorMapping& mapping, int64_t first, std::span<const float> values) {
    std::ranges::copy(values, parameters.values.at(mapping.name).begin() + first);
  };
  return import_hugging_face(path, rows, options, sink);
}

const std::vector<ExportFile> kFiles = {{"config.json", "{\"model_type\": \"gpt2\"}\n"},
                                        {"tokenizer.json", "{}\n"}};

TEST(HuggingFace, WhatIsExportedComesBackToTheBit) {
  const TestFolder around;
  const std::string folder = around / "out";
  Parameters ours(table(), 1.0F), back(table(), 0.0F);
  auto exported = export_hugging_face(folder, ours.views, table(), kFiles, {});
  ASSERT_TRUE(exported.has_value()) << exported.error().message;
  EXPECT_EQ(exported->tensors, 4);
  EXPECT_EQ(*list_directory(folder),
            (std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.json"}));
  EXPECT_EQ(*read_file(folder + "/config.json"), kFiles[0].text);
  auto file = SafetensorsFile::open(folder + "/model.safetensors");
  ASSERT_TRUE(file.has_value());
  const SafetensorsEntry* fused = file->view().find("transformer.h.0.attn.c_attn.weight");
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->shape, (Shape{67, 170}));
  // Element [in 5, out 140 + 3] is v[3, 5].
  float value = 0;
  std::memcpy(&value, file->view().bytes_of(*fused).data() + (5 * 170 + 143) * 4, 4);
  EXPECT_EQ(value, ours.values["v"][3 * 67 + 5]);
  auto imported = import_into(folder, back, {});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_EQ(imported->tensors, 4);
  EXPECT_EQ(imported->dtypes, (std::vector<std::string>{"F32"}));
  EXPECT_EQ(back.values, ours.values);
}

TEST(HuggingFace, Bf16RoundsToNearestEven) {
  const TestFolder around;
  const std::string folder = around / "out";
  Parameters ours(table(), 1.0F), back(table(), 0.0F);
  ASSERT_TRUE(export_hugging_face(folder, ours.views, table(), kFiles, {.dtype = DType::kBF16}).has_value());
  auto imported = import_into(folder, back, {});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_EQ(imported->dtypes, (std::vector<std::string>{"BF16"}));
  for (const auto& [name, values] : ours.values) {
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(back.values[name][i], tensor::float_of_bf16(tensor::bf16_of_float(values[i])));
      EXPECT_NEAR(back.values[name][i], values[i], std::fabs(values[i]) / 256);
    }
  }
}

TEST(HuggingFace, AnExistingFolderIsKeptUnlessReplaced) {
  const TestFolder around;
  const std::string& folder = around.path();
  Parameters ours(table(), 1.0F);
  const auto refused = export_hugging_face(folder, ours.views, table(), kFiles, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(has(refused.error().message, folder)) << refused.error().message;
  ASSERT_TRUE(export_hugging_face(folder, ours.views, table(), kFiles, {.replace = true}).has_value());
  set_fault("file.write:3=enospc");
  const auto full = export_hugging_face(folder + "/x", ours.views, table(), kFiles, {});
  set_fault("");
  EXPECT_FALSE(full.has_value());
  EXPECT_EQ(*list_directory(folder),
            (std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.json"}));
  const std::string other = folder + "/not-a-model";
  ASSERT_TRUE(make_directories(other).has_value());
  ASSERT_TRUE(write_file_atomically(other + "/notes.txt", "mine").has_value());
  const auto kept = export_hugging_face(other, ours.views, table(), kFiles, {.replace = true});
  ASSERT_FALSE(kept.has_value());
  EXPECT_NE(kept.error().message.find("is not the folder of a model"), std::string::npos)
      << kept.error().message;
  EXPECT_EQ(read_file(other + "/notes.txt").value(), "mine");
}

// Writes one file of zeros with these tensors.
void write_file(const std::string& path, const std::vector<TensorDeclaration>& tensors, char fill = 0) {
  auto writer = SafetensorsWriter::create(path, tensors, {});
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  for (const TensorDeclaration& tensor : tensors) {
    const std::string bytes(static_cast<size_t>(tensor.bytes()), fill);
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(bytes))).has_value());
  }
  ASSERT_TRUE(writer->finish().has_value());
}

TEST(HuggingFace, EveryDifferenceIsReportedAtOnceAndNothingIsWritten) {
  const TestFolder around;
  const std::string& folder = around.path();
  write_file(folder + "/model.safetensors", {{"h.0.attn.bias", DType::kF32, {1, 1, 4, 4}},
                                             {"wte.weight", DType::kF32, {8, 67}},
                                             {"ln_f.weight", DType::kI32, {67}},
                                             {"h.1.ln_1.weight", DType::kF32, {67}},
                                             {"h.0.attn.c_attn.bias", DType::kF32, {170}}});
  Parameters ours(table(), 1.0F);
  const Parameters before(table(), 1.0F);
  const auto refused = import_into(folder, ours, {});
  ASSERT_FALSE(refused.has_value());
  const std::string& message = refused.error().message;
  EXPECT_TRUE(has(message, folder + " does not fit the configured model (4 differences)")) << message;
  EXPECT_TRUE(has(message, "wte.weight is [8, 67], this model wants [9, 67]")) << message;
  EXPECT_TRUE(has(message, "transformer.h.0.attn.c_attn.weight is missing")) << message;
  EXPECT_TRUE(has(message, "ln_f.weight is of type I32")) << message;
  EXPECT_TRUE(has(message, "h.1.ln_1.weight [67] has no place in this model")) << message;
  EXPECT_EQ(ours.values, before.values);
}

TEST(HuggingFace, SeveralFilesWithAnIndexNamesWithoutPrefixAndTiedHeads) {
  const TestFolder around;
  const std::string& folder = around.path();
  write_file(folder + "/model-00001-of-00002.safetensors",
             {{"wte.weight", DType::kF16, {9, 67}}, {"lm_head.weight", DType::kF16, {9, 67}}}, 0x3c);
  write_file(folder + "/model-00002-of-00002.safetensors",
             {{"h.0.attn.c_attn.weight", DType::kBF16, {67, 170}},
              {"h.0.attn.c_attn.bias", DType::kBF16, {170}},
              {"ln_f.weight", DType::kBF16, {67}}});
  ASSERT_TRUE(
      write_file_atomically(folder + "/model.safetensors.index.json", R"({"metadata": {"total_size": 1},
    "weight_map": {"wte.weight": "model-00001-of-00002.safetensors",
                   "lm_head.weight": "model-00001-of-00002.safetensors",
                   "h.0.attn.c_attn.weight": "model-00002-of-00002.safetensors",
                   "h.0.attn.c_attn.bias": "model-00002-of-00002.safetensors",
                   "ln_f.weight": "model-00002-of-00002.safetensors"}})")
          .has_value());
  Parameters ours(table(), 1.0F);
  EXPECT_TRUE(has(import_into(folder, ours, {}).error().message, "lm_head.weight"));
  ImportOptions options;
  options.same_as = {{"lm_head.weight", "transformer.wte.weight"}};
  auto imported = import_into(folder, ours, options);
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_EQ(imported->ignored, (std::vector<std::string>{"lm_head.weight"}));
  EXPECT_EQ(imported->dtypes, (std::vector<std::string>{"BF16", "F16"}));
  EXPECT_EQ(ours.values["embed"][5], tensor::float_of_f16(0x3c3c));
  EXPECT_EQ(ours.values["k"][5], 0.0F);

  options.same_as = {{"lm_head.weight", "ln_f.weight"}};
  EXPECT_TRUE(has(import_into(folder, ours, options).error().message, "differs from ln_f.weight"));
  ASSERT_TRUE(remove_all(folder + "/model-00002-of-00002.safetensors").has_value());
  const auto missing = import_into(folder, ours, options);
  EXPECT_TRUE(has(missing.error().message, "model-00002-of-00002.safetensors is missing"))
      << missing.error().message;
}

TEST(HuggingFace, WhatCannotBeReadIsSaid) {
  const TestFolder around;
  const std::string& folder = around.path();
  Parameters ours(table(), 1.0F);
  const auto message = [&] { return import_into(folder, ours, {}).error().message; };
  EXPECT_TRUE(has(message(), "holds neither model.safetensors nor")) << message();
  ASSERT_TRUE(write_file_atomically(folder + "/pytorch_model.bin", "x").has_value());
  EXPECT_TRUE(has(message(), "pytorch_model.bin and no model.safetensors")) << message();
  const std::string index = folder + "/model.safetensors.index.json";
  for (const char* bad : {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})"}) {
    ASSERT_TRUE(write_file_atomically(index, bad).has_value());
    EXPECT_TRUE(has(message(), "has no weight_map")) << message();
  }
  for (const char* name : {"../x.safetensors", "/etc/passwd", ".", ""}) {
    ASSERT_TRUE(
        write_file_atomically(index, fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", name)).has_value());
    EXPECT_TRUE(has(message(), "which is not a file beside it")) << message();
  }
  EXPECT_TRUE(has(import_into(folder + "/none", ours, {}).error().message, "There is no "));
}

TEST(HuggingFace, ConvertsWhatThePythonLibraryWrote) {
  const std::vector<TensorMapping> rows = {
      {"b", {3, 5}, "b16"}, {"h", {7}, "f16"}, {"s", {2, 3, 4}, "f32"}, {"d", {5, 1}, "f64"}};
  Parameters ours(rows, 100.0F);
  ImportOptions options;
  options.ignored_suffixes = {"i32", "i64", "u8", "u16"};
  auto imported = import_into(std::string(INGOT_SOURCE_DIR) + "/tests/golden/safetensors/python.safetensors",
                              ours, options, rows);
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_EQ(imported->ignored.size(), 4U);
  int k = 0;
  for (const char* name : {"b", "h", "s", "d"}) {
    const auto& values = ours.values[name];
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>((static_cast<int>(i) * 7 + k * 3) % 13 - 6))
          << name << " " << i;
    }
    ++k;
  }
}

}  // namespace
}  // namespace ingot::checkpoint
