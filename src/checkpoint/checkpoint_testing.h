#pragma once
// A small model, its record and its folder, for the tests of checkpoints.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/test_folder.h"
#include "checkpoint/checkpoint.h"

namespace ingot::checkpoint {

// In memory where there is a file system for that: these tests flush hundreds of files.
class TestFolder : public ingot::TestFolder {
 public:
  TestFolder() : ingot::TestFolder(::access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : testing::TempDir()) {}
  std::string checkpoints() const { return *this / "checkpoints"; }
};

// Tensors of a small model whose every value depends on `seed`.
class Model {
 public:
  explicit Model(int seed) {
    add(model_, "embed.weight", {13, 5}, seed);
    add(model_, "h.0.norm.weight", {5}, seed);
    add(model_, "h.0.mlp.weight", {300, 501}, seed);
    for (const char* kind : {"exp_avg.", "exp_avg_sq."}) {
      add(optimizer_, kind + std::string("embed.weight"), {13, 5}, seed + 1);
      add(optimizer_, kind + std::string("h.0.norm.weight"), {5}, seed + 2);
      add(optimizer_, kind + std::string("h.0.mlp.weight"), {300, 501}, seed + 3);
    }
  }

  std::vector<TensorGroup> groups() { return {{"model", views(model_)}, {"optimizer", views(optimizer_)}}; }
  std::vector<NamedTensor> model() { return views(model_); }
  std::vector<NamedTensor> optimizer() { return views(optimizer_); }
  bool operator==(const Model& other) const {
    return same(model_, other.model_) && same(optimizer_, other.optimizer_);
  }

 private:
  struct Owned {
    std::string name;
    tensor::Shape shape;
    std::vector<float> values;
  };
  static void add(std::vector<Owned>& to, const std::string& name, tensor::Shape shape, int seed) {
    Owned owned{name, shape, std::vector<float>(static_cast<size_t>(shape.elements()))};
    for (size_t i = 0; i < owned.values.size(); ++i) {
      owned.values[i] = std::sin(static_cast<float>(i) + 1000.0F * static_cast<float>(seed));
    }
    to.push_back(std::move(owned));
  }
  static std::vector<NamedTensor> views(std::vector<Owned>& from) {
    std::vector<NamedTensor> out;
    for (Owned& owned : from)
      out.push_back({owned.name, {owned.values.data(), tensor::DType::kF32, owned.shape}});
    return out;
  }
  static bool same(const std::vector<Owned>& a, const std::vector<Owned>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::memcmp(a[i].values.data(), b[i].values.data(), a[i].values.size() * sizeof(float)) != 0)
        return false;
    }
    return a.size() == b.size();
  }
  std::vector<Owned> model_;
  std::vector<Owned> optimizer_;
};

inline StateRecord record_of(int64_t step) {
  StateRecord record;
  record.step = step;
  record.tokens = step * 1024;
  record.samples = step * 4;
  record.seed = std::numeric_limits<uint64_t>::max() - 3;
  record.data_fingerprint = "data-1";
  record.tokenizer_fingerprint = "tokenizer-1";
  record.model = {{"family", "llama"}, {"vocab_size", "4096"}, {"num_hidden_layers", "2"}};
  record.versions = {{"ingot", "0.1.0"}, {"onednn", "2.6.3"}};
  record.configuration = "[run]\nseed = 3\ndir = \"a\\\\b\"\n";
  record.scalars = {{"loss_scale", 65536},
                    {"third", 1.0 / 3},
                    {"tiny", 5e-324},
                    {"minus_zero", -0.0},
                    {"infinite", std::numeric_limits<double>::infinity()},
                    {"nan", std::numeric_limits<double>::quiet_NaN()}};
  record.counters = {{"skipped_steps", 3}, {"lowest", std::numeric_limits<int64_t>::min()}};
  record.best_validation_loss = 0.1 + 0.2;
  record.best_validation_step = step - 1;
  return record;
}

inline SaveReport save_or_die(const std::string& folder, Model& model, int64_t step,
                              const SaveOptions& options = {}) {
  auto report = save(folder, model.groups(), record_of(step), options);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return *report;
}

inline std::vector<std::string> names_in(const std::string& folder) {
  auto names = list_directory(folder);
  return names ? *names : std::vector<std::string>();
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Calls body(communicator, rank) on a thread per rank.
template <class Body>
void on_ranks(int ranks, const Body& body) {
  auto world = comm::make_local_world(ranks);
  graph::Mesh mesh;
  mesh.sizes[static_cast<size_t>(graph::Axis::kReplica)] = ranks;
  std::vector<std::thread> threads;
  for (auto& transport : world) {
    threads.emplace_back([&] {
      auto group = transport->group(mesh, graph::kWorldMask);
      INGOT_CHECK(group.has_value(), "{}", group.error().message);
      body(**group, transport->rank());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ingot::checkpoint
