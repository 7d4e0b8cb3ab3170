#pragma once
// Reads documents out of plain text (one file = one document) and JSON lines (one line = one document), also
// gzip (many members; dictzip too) and Zstandard (many frames) of both, in the order of the source files. A
// document comes as one or more pieces, so memory stays bounded however long it is; pieces are cut only where
// no tokenizer of ours can tell (text_cut.h). Not a splitter into train and validation: dataset_builder.h.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/source_files.h"

namespace ingot::data {

struct ReaderOptions {
  std::string text_field = "text";                  // JSON field that holds the text
  std::string text_field_option = "--text-field ";  // what a message puts before the right name
  int64_t piece_bytes = int64_t{1} << 20;           // wanted; a piece grows while there is no place to cut
  int64_t max_line_bytes = int64_t{1} << 31;  // of JSON; a longer line is an error, not a skipped document
};

// A part of a document, in order.
struct DocumentPiece {
  std::string text;
  int64_t document = 0;          // counts documents from 0 over all sources
  size_t source = 0;             // index of the source file
  int64_t line = 0;              // of JSON lines, from 1; 0 in plain text
  bool begins_document = false;  // an empty document is one empty piece with both set
  bool ends_document = false;
};

// Lines that gave no document, or files to be warned of; "first" is where the first of them is, as
// "file:line".
struct SkippedLines {
  int64_t count = 0;
  std::string first;
};

struct ReadStats {
  int64_t documents = 0;
  int64_t text_bytes = 0;  // of all pieces
  int64_t lines = 0;       // of JSON, blank ones not counted
  SkippedLines invalid_utf8;
  SkippedLines invalid_json;   // also a line that is not an object
  SkippedLines without_field;  // the field is not there or is not a string
  SkippedLines damaged_text;   // plain files that are not UTF-8; nothing of them is skipped
  int64_t skipped() const { return invalid_utf8.count + invalid_json.count + without_field.count; }
};

// One sentence per kind of skipped line and for files that are not UTF-8 ("3 lines are not valid UTF-8, the
// first is a.jsonl:17"); empty when none.
std::vector<std::string> describe_skipped(const ReadStats& stats);

class DocumentReader {
 public:
  // `sources` as find_source_files gives them.
  DocumentReader(std::vector<SourceFile> sources, ReaderOptions options);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;

  // Fills `piece`, reusing its memory; false at the end of the last source. Fails with kCorrupt for a torn or
  // damaged compressed file (file and byte offset), kInvalid for a JSON source none of whose lines has the
  // field (naming the fields that are there) or a line over the limit, kIo when the system refuses. After a
  // failure it must not be called again.
  Result<bool> next(DocumentPiece& piece);

  // "file" or "file:line", for messages about a document.
  std::string place(size_t source, int64_t line) const;

  const ReadStats& stats() const;
  int64_t stored_bytes_done() const;   // for progress: of the sources' stored_bytes
  int64_t stored_bytes_total() const;  // 0 when unknown (standard input)

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::data
