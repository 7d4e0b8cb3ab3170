#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/file.h"
#include "checkpoint/formats/hugging_face.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/formats/tensor_mapping.h"
#include "tensor/half.h"

namespace ingot::checkpoint {
namespace {

using tensor::DType;

// Fills `out` with a tensor of theirs.
template <class Element, class Convert>
void assemble(const TheirTensor& tensor, const std::map<std::string_view, const float*>& values,
              const Convert& convert, std::byte* out) {
  auto* theirs = reinterpret_cast<Element*>(out);
  for (const TensorMapping* part : tensor.parts) {
    const float* ours = values.at(part->name);
    for_each_element(strides_of(*part), [&](int64_t from, int64_t to) { theirs[to] = convert(ours[from]); });
  }
}

std::map<std::string_view, const float*> checked_values(std::span<const NamedTensor> parameters,
                                                        std::span<const TensorMapping> table) {
  std::map<std::string_view, const NamedTensor*> by_name;
  for (const NamedTensor& parameter : parameters) by_name[parameter.name] = &parameter;
  std::map<std::string_view, const float*> values;
  for (const TensorMapping& mapping : table) {
    const auto found = by_name.find(mapping.name);
    INGOT_CHECK(found != by_name.end(), "parameter {} is in the table and not given", mapping.name);
    const tensor::TensorView& view = found->second->view;
    INGOT_CHECK(view.dtype == DType::kF32 && view.shape == mapping.shape,
                "parameter {} is {} {}, the table says f32 {}", mapping.name, tensor::name_of(view.dtype),
                view.shape.to_string(), mapping.shape.to_string());
    values[mapping.name] = view.as<const float>();
  }
  return values;
}

// What is replaced is deleted, so a folder that is no model's stays.
Result<void> check_place(const std::string& folder, bool replace) {
  if (!path_exists(folder)) return {};
  if (!replace) {
    return invalid(
        fmt::format("{} exists already. Choose another folder, or replace it (--replace)", folder));
  }
  const auto names = list_directory(folder);
  if (names && (names->empty() || path_exists(folder + "/config.json"))) return {};
  return invalid(
      fmt::format("{} is not the folder of a model (it has no config.json), so it is not replaced. Move it "
                  "away, or choose "
                  "another",
                  folder));
}

}  // namespace

Result<ExportReport> export_hugging_face(const std::string& folder, std::span<const NamedTensor> parameters,
                                         std::span<const TensorMapping> table,
                                         std::span<const ExportFile> files, const ExportOptions& options) {
  const DType dtype = options.dtype;
  INGOT_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "export as {}", tensor::name_of(dtype));
  const std::map<std::string_view, const float*> values = checked_values(parameters, table);
  const std::vector<TheirTensor> tensors = their_tensors(table);
  std::vector<TensorDeclaration> declarations;
  int64_t largest = 0;
  for (const TheirTensor& tensor : tensors) {
    declarations.push_back({tensor.name, dtype, tensor.shape});
    largest = std::max(largest, declarations.back().bytes());
  }
  INGOT_TRY_VOID(check_place(folder, options.replace));
  INGOT_TRY(AtomicDirectory directory, AtomicDirectory::create(folder, options.replace));
  for (const ExportFile& file : files) {
    INGOT_TRY_VOID(write_file_atomically(directory.staging_path() + "/" + file.name, file.text));
  }
  // transformers refuses a file whose metadata does not name the framework that laid it out.
  INGOT_TRY(SafetensorsWriter writer,
            SafetensorsWriter::create(directory.staging_path() + "/model.safetensors",
                                      std::move(declarations), {{"format", "pt"}}));
  INGOT_TRY(const tensor::Buffer scratch, tensor::Buffer::allocate(std::max<int64_t>(largest, 1)));
  for (const TheirTensor& tensor : tensors) {
    if (dtype == DType::kF32) {
      assemble<float>(
          tensor, values, [](float value) { return value; }, scratch.data());
    } else {
      assemble<uint16_t>(
          tensor, values, [](float value) { return tensor::bf16_of_float(value); }, scratch.data());
    }
    const int64_t bytes = tensor.shape.elements() * tensor::size_of(dtype);
    INGOT_TRY_VOID(writer.write({scratch.data(), static_cast<size_t>(bytes)}));
  }
  INGOT_TRY(const WrittenSafetensors written, writer.finish());
  INGOT_TRY_VOID(directory.commit());
  return ExportReport{static_cast<int64_t>(tensors.size()), written.bytes};
}

}  // namespace ingot::checkpoint
