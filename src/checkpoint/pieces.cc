#include "checkpoint/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/hash.h"

namespace ingot::checkpoint {
namespace {

using tensor::DType;

// What is read between two returns of memory: the extra memory of a load.
constexpr int64_t kKeptBytes = int64_t{4} << 20;
constexpr int64_t kRunBytes = int64_t{512} << 10;  // copied and hashed at once: stays in cache
constexpr size_t kFaultBytes = size_t{64} << 10;   // Linux maps so much around a page that is touched

template <class From, class To>
void convert(const std::byte* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    From value;  // files of others need not be aligned
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof value), sizeof value);
    const To converted = static_cast<To>(value);
    std::memcpy(to + i * static_cast<int64_t>(sizeof converted), &converted, sizeof converted);
  }
}

void copy_run(DType from_type, const std::byte* from, int64_t count, DType to_type, std::byte* to) {
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<size_t>(count * tensor::size_of(to_type)));
  } else if (from_type == DType::kF32 && to_type == DType::kF64) {
    convert<float, double>(from, count, to);
  } else {
    INGOT_CHECK(from_type == DType::kF64 && to_type == DType::kF32, "{} read as {}",
                tensor::name_of(from_type), tensor::name_of(to_type));
    convert<double, float>(from, count, to);
  }
}

// Gives memory back as a reader moves on through a piece.
class Reading {
 public:
  explicit Reading(const SavedPiece& piece)
      : file_(piece.file->view().file()),
        begin_(static_cast<size_t>(piece.entry->offset)),
        end_(begin_ + static_cast<size_t>(piece.entry->bytes)),
        kept_(begin_) {}
  ~Reading() { release(end_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  // `offset`: in the piece.
  const std::byte* at(int64_t offset) {
    const size_t now = begin_ + static_cast<size_t>(offset);
    if (now > kept_ + static_cast<size_t>(kKeptBytes)) {
      release(now);
      kept_ = now;
    }
    return file_.data() + now;
  }

 private:
  void release(size_t end) const {
    const size_t first = kept_ - std::min(kept_, kFaultBytes);
    MappedFile::release(file_.subspan(first, std::min(file_.size(), end + kFaultBytes) - first));
  }
  std::span<const std::byte> file_;
  size_t begin_, end_, kept_;  // what lies before kept_ was given back
};

// Elements from the start of `box` to the element `at` of the tensor.
int64_t position(const Box& box, const std::array<int64_t, tensor::kMaxRank>& at) {
  int64_t index = 0;
  for (int d = 0; d < box.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    index = index * box.count[i] + at[i] - box.first[i];
  }
  return index;
}

// Calls body(first element of piece, first element of wanted, count) for each run of `shared` that is
// contiguous in both.
template <class Body>
void for_each_run(const Box& piece, const Box& wanted, const Box& shared, const Body& body) {
  int inner = shared.rank;  // dimensions from here on make one run
  int64_t run = 1;
  while (inner > 0) {
    const auto i = static_cast<size_t>(--inner);
    run *= shared.count[i];
    if (shared.count[i] != piece.count[i] || shared.count[i] != wanted.count[i]) break;
  }
  auto at = shared.first;
  for (;;) {
    body(position(piece, at), position(wanted, at), run);
    int d = inner - 1;
    for (; d >= 0; --d) {
      const auto i = static_cast<size_t>(d);
      if (++at[i] < shared.first[i] + shared.count[i]) break;
      at[i] = shared.first[i];
    }
    if (d < 0) return;
  }
}

}  // namespace

int64_t Box::elements() const {
  int64_t product = 1;
  for (int d = 0; d < rank; ++d) product *= count[static_cast<size_t>(d)];
  return product;
}

Box box_of(const tensor::Shape& shape, const std::optional<Part>& part) {
  Box box;
  box.rank = shape.rank();
  for (int d = 0; d < box.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    box.first[i] = part ? part->offset[i] : 0;
    box.count[i] = shape[d];
  }
  return box;
}

Box shared_box(const Box& a, const Box& b) {
  Box out;
  out.rank = a.rank;
  for (size_t i = 0; i < static_cast<size_t>(a.rank); ++i) {
    out.first[i] = std::max(a.first[i], b.first[i]);
    const int64_t end = std::min(a.first[i] + a.count[i], b.first[i] + b.count[i]);
    out.count[i] = std::max<int64_t>(0, end - out.first[i]);
  }
  return out;
}

std::string piece_name(const NamedTensor& tensor) {
  if (!tensor.part) return tensor.name;
  std::string ranges;
  for (int d = 0; d < tensor.view.shape.rank(); ++d) {
    const int64_t first = tensor.part->offset[static_cast<size_t>(d)];
    ranges += fmt::format("{}{}:{}", ranges.empty() ? "" : ",", first, first + tensor.view.shape[d]);
  }
  return fmt::format("{}[{}]", tensor.name, ranges);
}

Result<void> check_pieces(const SavedTensor& tensor, const std::string& place) {
  const auto wrong = [&](const std::string& what) {
    return corrupt(
        fmt::format("{}: {} {}. The checkpoint is damaged; use another one", place, tensor.name, what));
  };
  int64_t covered = 0;
  for (const SavedPiece& piece : tensor.pieces) {
    if (piece.box.rank != tensor.whole.rank() || piece.entry->dtype_name != tensor.dtype_name)
      return wrong("has pieces that differ in type or rank");
    for (int d = 0; d < piece.box.rank; ++d) {
      const int64_t first = piece.box.first[static_cast<size_t>(d)], whole = tensor.whole[d];
      if (first < 0 || whole < 0 || first > whole || piece.box.count[static_cast<size_t>(d)] > whole - first)
        return wrong("has a piece outside of its shape");
    }
    covered += piece.box.elements();
  }
  int64_t whole = 1;
  for (int d = 0; d < tensor.whole.rank(); ++d) {
    if (__builtin_mul_overflow(whole, tensor.whole[d], &whole)) return wrong("has an impossible shape");
  }
  if (covered != whole) return wrong(fmt::format("has {} of its {} elements", covered, whole));
  // Sorted by their first rows, pieces can only overlap with those before which have not ended.
  std::vector<const Box*> boxes;
  for (const SavedPiece& piece : tensor.pieces) {
    if (piece.box.elements() > 0) boxes.push_back(&piece.box);
  }
  std::ranges::sort(boxes, {}, [](const Box* box) { return box->first[0]; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      if (boxes[i]->rank > 0 && boxes[j]->first[0] >= boxes[i]->first[0] + boxes[i]->count[0]) break;
      if (shared_box(*boxes[i], *boxes[j]).elements() > 0) return wrong("has pieces that overlap");
    }
  }
  return {};
}

bool copy_shared(const SavedPiece& piece, const NamedTensor& to) {
  const Box wanted = box_of(to.view.shape, to.part);
  const Box shared = shared_box(piece.box, wanted);
  if (shared.elements() == 0) return true;
  const DType from_type = *piece.entry->dtype, to_type = to.view.dtype;
  const bool hashes = piece.box == wanted && from_type == to_type;
  Hasher hasher;
  Reading reading(piece);
  for_each_run(piece.box, wanted, shared, [&](int64_t from, int64_t into, int64_t count) {
    const int64_t most = kRunBytes / tensor::size_of(from_type);
    for (int64_t done = 0; done < count; done += most) {
      const int64_t now = std::min(most, count - done);
      std::byte* out = to.view.as<std::byte>() + (into + done) * tensor::size_of(to_type);
      copy_run(from_type, reading.at((from + done) * tensor::size_of(from_type)), now, to_type, out);
      // Of the copy, not of the mapping: what counts is what the run goes on with.
      if (hashes) hasher.update({out, static_cast<size_t>(now * tensor::size_of(to_type))});
    }
  });
  return !hashes || hasher.digest() == piece.hash;
}

uint64_t hash_of(const SavedPiece& piece) {
  const int64_t bytes = piece.entry->bytes;
  Hasher hasher;
  Reading reading(piece);
  for (int64_t done = 0; done < bytes; done += kRunBytes)
    hasher.update({reading.at(done), static_cast<size_t>(std::min(kRunBytes, bytes - done))});
  return hasher.digest();
}

}  // namespace ingot::checkpoint
