// Checkpoints that several ranks write together, and reads of any boxes of them.

#include <gtest/gtest.h>

#include <numeric>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_testing.h"

namespace ingot::checkpoint {
namespace {

using tensor::DType;
using tensor::Shape;

// A tensor whose every element tells its place.
struct Whole {
  std::string name;
  Shape shape;
  std::vector<double> values;

  Whole(std::string called, Shape extents) : name(std::move(called)), shape(extents) {
    values.resize(static_cast<size_t>(shape.elements()));
    std::iota(values.begin(), values.end(), 0.5);
  }
};

struct Piece {
  const Whole* whole = nullptr;
  std::vector<int64_t> offset;
  Shape shape;
};

// Memory for boxes of tensors, filled with their values or with nothing.
template <class T>
class Boxes {
 public:
  void add(const Piece& piece, bool filled, bool whole = false) {
    std::vector<T>& own =
        memory_.emplace_back(std::make_unique<std::vector<T>>(static_cast<size_t>(piece.shape.elements())))
            .
            operator*();
    if (filled) {
      for (size_t i = 0; i < own.size(); ++i) own[i] = expected(piece, static_cast<int64_t>(i));
    }
    pieces_.push_back(piece);
    const DType dtype = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
    NamedTensor tensor{piece.whole->name, {own.data(), dtype, piece.shape}, {}};
    if (!whole) tensor.part = Part{piece.offset, piece.whole->shape};
    tensors_.push_back(tensor);
  }
  std::vector<NamedTensor> tensors() const { return tensors_; }
  void expect_filled(const std::string& where) const {
    for (size_t p = 0; p < pieces_.size(); ++p) {
      for (size_t i = 0; i < memory_[p]->size(); ++i)
        ASSERT_EQ((*memory_[p])[i], expected(pieces_[p], static_cast<int64_t>(i)))
            << where << " " << pieces_[p].whole->name << " element " << i;
    }
  }

 private:
  static T expected(const Piece& piece, int64_t index) {
    int64_t at = 0, rest = index, stride = 1;
    for (int d = piece.shape.rank() - 1; d >= 0; --d) {
      at += (piece.offset[static_cast<size_t>(d)] + rest % piece.shape[d]) * stride;
      rest /= piece.shape[d];
      stride *= piece.whole->shape[d];
    }
    return static_cast<T>(piece.whole->values[static_cast<size_t>(at)]);
  }
  std::vector<Piece> pieces_;
  std::vector<std::unique_ptr<std::vector<T>>> memory_;
  std::vector<NamedTensor> tensors_;
};

// Three ranks: a matrix cut by columns, a vector and a cube cut anywhere along rows, a small one of rank 0.
class Sharded : public ::testing::Test {
 protected:
  Whole matrix_{"h.0.mlp.weight", {40, 30}}, vector_{"norm.weight", {17}}, cube_{"experts", {5, 4, 6}};
  Whole small_{"bias", {3}};

  std::vector<Piece> pieces_of(int rank) const {
    const int64_t r = rank;
    std::vector<Piece> pieces = {{&matrix_, {0, 10 * r}, {40, 10}}};
    if (rank == 0) pieces.push_back({&vector_, {0}, {5}});
    if (rank == 2) pieces.push_back({&vector_, {5}, {12}});
    if (rank == 1) pieces.push_back({&cube_, {0, 0, 0}, {2, 4, 6}});
    if (rank == 2) {
      pieces.push_back({&cube_, {2, 0, 0}, {1, 3, 6}});
      pieces.push_back({&cube_, {2, 3, 0}, {1, 1, 2}});
    }
    if (rank == 0) {
      pieces.push_back({&cube_, {2, 3, 2}, {1, 1, 4}});
      pieces.push_back({&cube_, {3, 0, 0}, {2, 4, 6}});
    }
    return pieces;
  }
  // Group "model" is of all, "optimizer" of rank 0 alone.
  template <class T>
  std::vector<TensorGroup> groups_of(int rank, Boxes<T>& model, Boxes<T>& optimizer) const {
    for (const Piece& piece : pieces_of(rank)) model.add(piece, true);
    if (rank == 0) optimizer.add({&small_, {0}, {3}}, true, true);
    return {{"model", model.tensors()}, {"optimizer", optimizer.tensors()}};
  }
  template <class T>
  Result<SaveReport> save_by(comm::Communicator& ranks, int rank, int64_t step,
                             const SaveOptions& options = {}) const {
    Boxes<T> model, optimizer;
    return save(ranks, scratch_.checkpoints(), groups_of(rank, model, optimizer), record_of(step), options);
  }
  template <class T>
  std::string saved(int64_t step) const {
    on_ranks(3, [&](comm::Communicator& ranks, int rank) {
      auto report = save_by<T>(ranks, rank, step);
      EXPECT_TRUE(report) << report.error().message;
    });
    return scratch_.checkpoints() + "/" + step_folder(step);
  }
  template <class T>
  void expect_whole(const Checkpoint& checkpoint, const std::string& where) const {
    Boxes<T> model, optimizer;
    for (const Whole* whole : {&matrix_, &vector_, &cube_}) {
      const std::vector<int64_t> none(static_cast<size_t>(whole->shape.rank()), 0);
      model.add({whole, none, whole->shape}, false, true);
    }
    optimizer.add({&small_, {0}, {3}}, false, true);
    auto read = checkpoint.read("model", model.tensors());
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_TRUE(checkpoint.read("optimizer", optimizer.tensors()));
    model.expect_filled(where);
    optimizer.expect_filled(where);
  }

  const TestFolder scratch_;
};

TEST_F(Sharded, EachRankWritesItsFileAndAGroupOfOneKeepsItsName) {
  const std::string path = saved<float>(10);
  EXPECT_EQ(names_in(path),
            (std::vector<std::string>{"manifest.json", "model-00000.safetensors", "model-00001.safetensors",
                                      "model-00002.safetensors", "optimizer.safetensors", "state.json"}));
  auto opened = Checkpoint::open(path);
  ASSERT_TRUE(opened) << opened.error().message;
  int64_t on_disk = 0;
  for (const auto& name : names_in(path)) on_disk += *file_bytes(path + "/" + name);
  EXPECT_EQ(opened->bytes(), on_disk);
  EXPECT_TRUE(opened->verify());
  auto listed = opened->tensors("model");
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 3U);
  EXPECT_EQ((*listed)[0].name, "h.0.mlp.weight");
  EXPECT_EQ((*listed)[0].view.shape, (Shape{40, 30}));
}

TEST_F(Sharded, WholeTensorsComeBackInEitherPrecision) {
  for (const bool doubles : {false, true}) {
    const std::string path = doubles ? saved<double>(10) : saved<float>(10);
    auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    expect_whole<float>(*opened, "as float");
    expect_whole<double>(*opened, "as double");
  }
}

TEST_F(Sharded, AnyOtherBoxComesBack) {
  auto opened = Checkpoint::open(saved<float>(10));
  ASSERT_TRUE(opened) << opened.error().message;
  Boxes<float> boxes;
  for (int64_t row = 0; row < 40; row += 8) boxes.add({&matrix_, {row, 0}, {8, 30}}, false);
  for (int64_t row = 3; row < 40; row += 9) boxes.add({&matrix_, {row, 7}, {1, 15}}, false);
  boxes.add({&matrix_, {39, 29}, {1, 1}}, false);
  for (int64_t first = 0; first < 17; ++first) boxes.add({&vector_, {first}, {17 - first}}, false);
  for (int64_t i = 0; i < 5; ++i) boxes.add({&cube_, {i, i % 3, 1}, {1, 2, 5}}, false);
  boxes.add({&cube_, {1, 1, 1}, {3, 3, 3}}, false);
  auto read = opened->read_some("model", boxes.tensors());
  ASSERT_TRUE(read) << read.error().message;
  boxes.expect_filled("boxes");
}

TEST_F(Sharded, SharesOfAVerificationFindEveryDamage) {
  const std::string path = saved<float>(10);
  const std::string file = path + "/model-00002.safetensors";
  const std::string sound = *read_file(file);
  for (size_t at = sound.size() - 400; at < sound.size(); at += 57) {
    std::string torn = sound;
    torn[at] = static_cast<char>(torn[at] ^ 4);
    ASSERT_TRUE(write_file_atomically(file, torn));
    auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    int found = 0;
    for (int share = 0; share < 4; ++share) {
      const auto verified = opened->verify(share, 4);
      if (verified) continue;
      ++found;
      EXPECT_TRUE(has(verified.error().message, "model-00002.safetensors")) << verified.error().message;
    }
    EXPECT_EQ(found, 1) << at;
  }
}

TEST_F(Sharded, TheNewestSoundOneIsFoundByAllTogether) {
  saved<float>(10);
  const std::string newest = saved<float>(20);
  on_ranks(3, [&](comm::Communicator& ranks, int) {
    auto found = latest(ranks, scratch_.checkpoints());
    ASSERT_TRUE(found && found->has_value());
    EXPECT_EQ((*found)->step, 20);
  });
  ASSERT_TRUE(remove_all(newest + "/model-00001.safetensors"));
  on_ranks(3, [&](comm::Communicator& ranks, int) {
    auto found = latest(ranks, scratch_.checkpoints());
    ASSERT_TRUE(found && found->has_value());
    EXPECT_EQ((*found)->step, 10);
    EXPECT_TRUE(has((*found)->notes.back(), "model-00001.safetensors is missing"));
  });
}

TEST_F(Sharded, HolesAndOverlapsAreDamage) {
  const auto opened_after = [&](const std::vector<std::vector<Piece>>& by_rank) {
    on_ranks(static_cast<int>(by_rank.size()), [&](comm::Communicator& ranks, int rank) {
      Boxes<float> model;
      for (const Piece& piece : by_rank[static_cast<size_t>(rank)]) model.add(piece, true);
      const std::vector<TensorGroup> groups = {{"model", model.tensors()}};
      auto report = save(ranks, scratch_.checkpoints(), groups, record_of(5), {});
      EXPECT_TRUE(report) << report.error().message;
    });
    auto opened = Checkpoint::open(scratch_.checkpoints() + "/" + step_folder(5));
    return opened ? std::string("opened") : opened.error().message;
  };
  const Piece left{&matrix_, {0, 0}, {40, 15}}, right{&matrix_, {0, 15}, {40, 15}};
  EXPECT_EQ(opened_after({{left}, {right}}), "opened");
  EXPECT_TRUE(has(opened_after({{left}, {{&vector_, {0}, {17}}}}), "has 600 of its 1200 elements"));
  const Piece shifted{&matrix_, {0, 14}, {40, 15}};
  EXPECT_TRUE(has(opened_after({{left}, {shifted}}), "has pieces that overlap"));
}

TEST_F(Sharded, OneThatFailsEndsTheSaveForAllAndLeavesNothing) {
  saved<float>(10);
  for (int n = 1; n < 40; n += 3) {
    std::vector<std::string> errors(3);
    set_fault("file.write:" + std::to_string(n) + "=enospc");
    on_ranks(3, [&](comm::Communicator& ranks, int rank) {
      auto report = save_by<float>(ranks, rank, 20, {.keep_last = 1});
      errors[static_cast<size_t>(rank)] = report ? "saved" : report.error().message;
    });
    set_fault("");
    EXPECT_EQ(errors[1], errors[0]);
    EXPECT_EQ(errors[2], errors[0]);
    if (errors[0] == "saved") {
      EXPECT_GT(n, 4);
      break;
    }
    EXPECT_TRUE(has(errors[0], "The checkpoint of step 10 is untouched")) << errors[0];
    EXPECT_EQ(names_in(scratch_.checkpoints()), (std::vector<std::string>{"step-00000010"}));
  }
  auto opened = Checkpoint::open(scratch_.checkpoints() + "/" + step_folder(20));
  ASSERT_TRUE(opened) << opened.error().message;
  expect_whole<float>(*opened, "after failures");
}

TEST_F(Sharded, OneThatNeverComesEndsTheSaveAndTheOldOneStays) {
  saved<float>(10);
  on_ranks(3, [&](comm::Communicator& ranks, int rank) {
    if (rank == 1) return;
    auto report = save_by<float>(ranks, rank, 20, {.patience = std::chrono::milliseconds(50)});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::kFault);
    EXPECT_TRUE(has(report.error().message, "rank 1")) << report.error().message;
  });
  EXPECT_EQ(names_in(scratch_.checkpoints()), (std::vector<std::string>{"step-00000010"}));
}

}  // namespace
}  // namespace ingot::checkpoint
