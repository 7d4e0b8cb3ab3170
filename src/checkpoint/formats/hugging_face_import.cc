#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "checkpoint/formats/hugging_face.h"
#include "checkpoint/formats/hugging_face_files.h"
#include "checkpoint/formats/tensor_mapping.h"
#include "tensor/half.h"

namespace ingot::checkpoint {
namespace {

using tensor::DType;

constexpr size_t kMostNamed = 12;
constexpr int64_t kBlockElements = int64_t{1} << 20;

template <class Stored>
Stored load(const std::byte* theirs, int64_t index) {
  Stored value;
  std::memcpy(&value, theirs + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

// Files of others need not be aligned: every element is read by memcpy.
void copy_rows(const Strides& strides, DType dtype, const std::byte* theirs, float* ours) {
  if (dtype == DType::kF32) {
    for_each_element(strides, [&](int64_t to, int64_t from) { ours[to] = load<float>(theirs, from); });
  } else if (dtype == DType::kBF16) {
    for_each_element(strides, [&](int64_t to, int64_t from) {
      ours[to] = tensor::float_of_bf16(load<uint16_t>(theirs, from));
    });
  } else if (dtype == DType::kF16) {
    for_each_element(strides, [&](int64_t to, int64_t from) {
      ours[to] = tensor::float_of_f16(load<uint16_t>(theirs, from));
    });
  } else {
    INGOT_CHECK(dtype == DType::kF64, "an import of type {}", tensor::name_of(dtype));
    for_each_element(strides, [&](int64_t to, int64_t from) {
      ours[to] = static_cast<float>(load<double>(theirs, from));
    });
  }
}

// Gives the sink blocks of whole rows.
void read_part(const TensorMapping& part, const FoundTensor& found, const ImportSink& sink) {
  const Strides all = strides_of(part);
  const int64_t most = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, all.columns));
  std::vector<float> block(static_cast<size_t>(std::min(most, all.rows) * all.columns));
  for (int64_t row = 0; row < all.rows; row += most) {
    Strides rows = all;
    rows.rows = std::min(most, all.rows - row);
    rows.begin += row * all.row_stride;
    copy_rows(rows, *found.entry->dtype, found.bytes().data(), block.data());
    sink(part, row * all.columns, std::span(block).first(static_cast<size_t>(rows.rows * rows.columns)));
  }
}

bool ends_with_any(std::string_view name, const std::vector<std::string>& suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

// What is wrong with one tensor of theirs, or nothing.
std::string wrong_with(const TheirTensor& wanted, const FoundTensor& found) {
  const SafetensorsEntry& entry = *found.entry;
  if (!(entry.shape == wanted.shape)) {
    return fmt::format("{} is {}, this model wants {}", entry.name, entry.shape.to_string(),
                       wanted.shape.to_string());
  }
  if (!entry.dtype || !tensor::is_floating(*entry.dtype)) {
    return fmt::format("{} is of type {}; convert it to F32, BF16 or F16", entry.name, entry.dtype_name);
  }
  return {};
}

class Matching {
 public:
  Matching(const HuggingFaceFiles& files, std::span<const TheirTensor> wanted, const ImportOptions& options)
      : files_(files), wanted_(wanted), options_(options) {}

  void run(ImportReport& report) {
    std::set<std::string_view> used;
    std::set<std::string> dtypes;
    for (const TheirTensor& tensor : wanted_) {
      const std::string_view key = without_prefix(tensor.name);
      used.insert(key);
      const auto found = files_.tensors().find(key);
      if (found == files_.tensors().end()) {
        problems_.push_back(fmt::format("{} is missing", tensor.name));
        continue;
      }
      if (std::string wrong = wrong_with(tensor, found->second); !wrong.empty())
        problems_.push_back(std::move(wrong));
      dtypes.insert(found->second.entry->dtype_name);
      ++report.tensors;
    }
    for (const auto& [key, found] : files_.tensors()) {
      if (!used.contains(key)) look_at_unexpected(key, found, report);
    }
    report.dtypes.assign(dtypes.begin(), dtypes.end());
  }

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void look_at_unexpected(const std::string& key, const FoundTensor& found, ImportReport& report) {
    const std::string& name = found.entry->name;
    for (const auto& [alias, original] : options_.same_as) {
      if (without_prefix(alias) != key) continue;
      const auto other = files_.tensors().find(without_prefix(original));
      if (other == files_.tensors().end() || !equal(found, other->second)) {
        problems_.push_back(fmt::format("{} differs from {}, and this model ties them", name, original));
      }
      report.ignored.push_back(name);
      return;
    }
    if (ends_with_any(name, options_.ignored_suffixes)) {
      report.ignored.push_back(name);
    } else {
      problems_.push_back(
          fmt::format("{} {} has no place in this model", name, found.entry->shape.to_string()));
    }
  }

  static bool equal(const FoundTensor& a, const FoundTensor& b) {
    const auto left = a.bytes();
    const auto right = b.bytes();
    return a.entry->dtype_name == b.entry->dtype_name && a.entry->shape == b.entry->shape &&
           std::equal(left.begin(), left.end(), right.begin(), right.end());
  }

  const HuggingFaceFiles& files_;
  std::span<const TheirTensor> wanted_;
  const ImportOptions& options_;
  std::vector<std::string> problems_;
};

Error mismatch(const std::string& path, const std::vector<std::string>& problems) {
  std::string message = fmt::format(
      "{} does not fit the configured model ({} differences). Take the [model] block from "
      "its config.json (model.from)",
      path, problems.size());
  for (size_t i = 0; i < problems.size() && i < kMostNamed; ++i) message += "\n  " + problems[i];
  if (problems.size() > kMostNamed) message += fmt::format("\n  and {} more", problems.size() - kMostNamed);
  return invalid(std::move(message));
}

}  // namespace

Result<ImportReport> import_hugging_face(const std::string& path, std::span<const TensorMapping> table,
                                         const ImportOptions& options, const ImportSink& sink) {
  INGOT_TRY(const HuggingFaceFiles files, HuggingFaceFiles::open(path));
  const std::vector<TheirTensor> wanted = their_tensors(table);
  ImportReport report;
  Matching matching(files, wanted, options);
  matching.run(report);
  if (!matching.problems().empty()) return mismatch(path, matching.problems());
  for (const TheirTensor& tensor : wanted) {
    const FoundTensor& found = files.tensors().find(without_prefix(tensor.name))->second;
    for (const TensorMapping* part : tensor.parts) read_part(*part, found, sink);
    MappedFile::release(found.bytes());
  }
  return report;
}

}  // namespace ingot::checkpoint
