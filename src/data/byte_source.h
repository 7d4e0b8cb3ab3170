#pragma once
// The bytes of a file or of standard input, decompressed when its first bytes say gzip or Zstandard.
// Sequential only. Not a text reader: document_reader.h. Another compression is one class in byte_source.cc.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace ingot::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `out` and returns how many bytes; 0 only at the end. kCorrupt with file and byte
  // offset (of the compressed file) for torn or damaged data.
  virtual Result<size_t> read(std::span<char> out) = 0;
  virtual int64_t stored_bytes_read() const = 0;
};

// "-" is standard input. A file that is named .gz, .dz or .zst and is not of that kind is kCorrupt.
Result<std::unique_ptr<ByteSource>> open_byte_source(const std::string& path);

}  // namespace ingot::data
