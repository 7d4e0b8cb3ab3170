#pragma once
// Which files a corpus is: paths, folders (recursive) and globs become one ordered list of source files, and
// the order of that list is the order of documents. Not a reader: see document_reader.h. A new file name
// ending is one row in the table of source_files.cc.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::data {

enum class TextFormat : uint8_t {
  kAuto,       // by name: .jsonl and .ndjson are JSON lines, all else plain text; "-" by its first byte ('{')
  kPlainText,  // one file = one document
  kJsonLines,  // one line = one document
};

struct SourceFile {
  std::string path;                            // "-" is standard input
  TextFormat format = TextFormat::kPlainText;  // kAuto only for "-"
  int64_t stored_bytes = 0;                    // as stored, compressed or not; 0 for "-"
  int64_t modified_ns = 0;                     // of the file system
};

// In the order given; what a folder or a glob yields is sorted by path bytes. A folder gives the files whose
// names end in a known way (txt, text, md, jsonl, ndjson, with or without .gz, .zst, .dz), hidden ones left
// out; a file or a glob may have any name. Fails with kNotFound for a path that is not there or gives
// nothing, and kInvalid for an empty file, each sentence naming the path; a list that gives one file twice is
// refused too.
Result<std::vector<SourceFile>> find_source_files(const std::vector<std::string>& paths, TextFormat format);

}  // namespace ingot::data
