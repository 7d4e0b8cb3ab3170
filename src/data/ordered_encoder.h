#pragma once
// Encodes units of text on several threads and gives them back in the order they came in. Not a writer;
// internal to the data set builder. Memory is what the units in flight hold.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {

// Several short documents, or a part of a long one.
struct EncodeUnit {
  struct Piece {
    size_t text_bytes = 0;
    size_t ids = 0;  // how many; set by the encoder
    bool begins_document = false;
    bool ends_document = false;
    size_t source = 0;  // for messages
    int64_t line = 0;
  };
  std::string text;  // of all pieces, one after the other
  std::vector<Piece> pieces;
  std::vector<int32_t> ids;  // of all pieces
  std::optional<Error> failed;
  size_t failed_piece = 0;
};

class OrderedEncoder {
 public:
  // `threads` includes the one that calls next(). `tokenizer` must outlive it.
  OrderedEncoder(const Tokenizer& tokenizer, int threads);
  ~OrderedEncoder();  // drops what was not taken
  OrderedEncoder(const OrderedEncoder&) = delete;
  OrderedEncoder& operator=(const OrderedEncoder&) = delete;

  bool full() const;   // no more should be submitted before next()
  bool empty() const;  // nothing is in flight
  void submit(std::unique_ptr<EncodeUnit> unit);
  // The oldest unit, encoded; the caller's thread encodes too while it waits.
  std::unique_ptr<EncodeUnit> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::data
