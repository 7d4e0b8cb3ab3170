#pragma once
// Folders as Hugging Face's libraries write and read them: config.json, model.safetensors (or several files
// and an index), tokenizer.json. Maps tensors by a table of plain rows; which rows a model family has, and
// what its config.json says, its caller knows. Reads safetensors only: other weight files of the field can
// run code.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "tensor/tensor.h"

namespace ingot::checkpoint {

// Where a parameter of ours lies in a tensor of theirs: all of it, or rows of it. Rows are counted after the
// transposition, that is along our [out, in]; of a vector each element is a row.
struct TensorMapping {
  std::string name;         // ours
  tensor::Shape shape;      // ours
  std::string theirs;       // "transformer.h.0.attn.c_attn.weight"
  bool transposed = false;  // stored [in, out] there
  int64_t row = 0;          // the first row of ours in theirs
  int64_t rows = 0;         // of the whole tensor there; 0: the same as ours
};

struct ExportOptions {
  tensor::DType dtype = tensor::DType::kF32;  // or kBF16
  bool replace = false;                       // an existing folder
};

struct ExportFile {
  std::string name;  // "config.json", "tokenizer.json", ...
  std::string text;
};

struct ExportReport {
  int64_t tensors = 0;  // of theirs
  int64_t bytes = 0;    // of model.safetensors
};

// Writes `folder` aside and renames it whole. `parameters` are float32. A table that does not fill each
// tensor of theirs exactly once, or names a parameter that is not given, is a check. Errors: kInvalid when
// `folder` exists and is not to be replaced, kIo.
Result<ExportReport> export_hugging_face(const std::string& folder, std::span<const NamedTensor> parameters,
                                         std::span<const TensorMapping> table,
                                         std::span<const ExportFile> files, const ExportOptions& options);

struct ImportOptions {
  // Names that repeat another tensor ("lm_head.weight" of "transformer.wte.weight" when tied): left out when
  // the bytes are equal, an error when not.
  std::vector<std::pair<std::string, std::string>> same_as = {};
  // Buffers that are no parameters: causal masks and rotary tables that older files hold.
  std::vector<std::string> ignored_suffixes = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
};

struct ImportReport {
  int64_t tensors = 0;               // of theirs that were read
  std::vector<std::string> ignored;  // their names
  std::vector<std::string> dtypes;   // met, as "BF16"
};

// Takes the elements of a parameter of ours from `first` on, row-major.
using ImportSink =
    std::function<void(const TensorMapping& mapping, int64_t first, std::span<const float> values)>;

// Reads a folder (or one .safetensors file) for `table`, some rows of a parameter at a time, converting F64,
// F32, F16 and BF16. A name matches with or without the prefix "transformer." or "model.". Every missing,
// unexpected and mis-shaped tensor is reported at once, before anything is given to the sink.
Result<ImportReport> import_hugging_face(const std::string& path, std::span<const TensorMapping> table,
                                         const ImportOptions& options, const ImportSink& sink);

}  // namespace ingot::checkpoint
