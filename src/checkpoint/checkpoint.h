#pragma once
// Checkpoints: a run's state on disk, whole or not there at all. One is a folder "step-00001000" that holds
// safetensors files for each group of tensors, state.json and manifest.json (docs/formats/checkpoint.md);
// each byte is covered by a hash. Many ranks write one together, each what it holds, and read of it what they
// need, split as they are now. This layer knows names, shapes and hashes; not what a tensor means, nor when
// to save. A new fact about a run is a field of StateRecord and a line in records.cc; a new group of tensors
// is another TensorGroup.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "tensor/tensor.h"

namespace ingot::checkpoint {

inline constexpr int kCheckpointVersion = 2;

// Where a box lies in a tensor.
struct Part {
  std::vector<int64_t> offset;  // of its first element, one for each dimension
  tensor::Shape whole;          // shape of the tensor
  bool operator==(const Part&) const = default;
};

struct NamedTensor {
  std::string name;
  tensor::TensorView view;        // host memory, borrowed for the call
  std::optional<Part> part = {};  // `view` is this box of the tensor; empty: all of it
};

// Becomes "<name>.safetensors", or one file for each rank that holds some of it. The groups of a training run
// are "model" and "optimizer".
struct TensorGroup {
  std::string name;
  std::vector<NamedTensor> tensors;
};

using Fields = std::vector<std::pair<std::string, std::string>>;

// What a run needs besides tensors to go on with the same bits.
struct StateRecord {
  int64_t step = 0;    // finished steps
  int64_t tokens = 0;  // consumed in them
  int64_t samples = 0;
  uint64_t seed = 0;
  std::string data_fingerprint;
  std::string tokenizer_fingerprint;
  Fields model;               // key by key, as in the configuration; what makes two models the same
  Fields versions;            // of Ingot and its libraries
  std::string configuration;  // the resolved configuration, as text
  std::vector<std::pair<std::string, double>> scalars;  // kept to the bit, not-a-number included
  std::vector<std::pair<std::string, int64_t>> counters;
  std::optional<double> best_validation_loss;
  int64_t best_validation_step = 0;
};

std::string step_folder(int64_t step);  // "step-00001000"

// ---------------------------------------------------------------- save

struct SaveOptions {
  int keep_last = 0;                     // checkpoints to keep, this one included; 0 keeps all
  std::vector<int64_t> keep_steps = {};  // never removed
  // How long a member waits for another to write; empty: ten minutes, or 100 s a GB.
  std::optional<std::chrono::milliseconds> patience = {};
};

struct SaveReport {
  std::string path;   // of the checkpoint
  int64_t bytes = 0;  // on disk
  double seconds = 0;
  std::vector<std::string> removed;  // older checkpoints, by name
  std::vector<std::string> notes;    // sentences: what could not be removed, what was set aside
};

// Bytes that save() would write, alone.
int64_t checkpoint_bytes(std::span<const TensorGroup> groups, const StateRecord& record);

// Writes "<folder>/<step_folder(record.step)>" aside, renames it whole, then removes old ones. One pass over
// the tensors; they must not change meanwhile. An existing checkpoint of the same step is replaced.
// Checkpoints of later steps belong to a history that this run has left: they are renamed "<name>.aside" and
// noted, never removed. Errors: kIo with the bytes needed and free when the disk is full or refuses;
// everything that was there before is then still there, and nothing half. Fault points, in order:
// checkpoint.begin, after_model, after_optimizer (after_ <group> each), after_state, after_manifest,
// before_rename, after_rename, before_prune, during_prune, after_prune.
Result<SaveReport> save(const std::string& folder, std::span<const TensorGroup> groups,
                        const StateRecord& record, const SaveOptions& options);

// The same by all members of `ranks` together, in a folder that all of them see: each gives the tensors and
// boxes that it writes, every element once over all; nothing is gathered. The record and what the report says
// of removed checkpoints are member 0's. All return success, or all the same error.
Result<SaveReport> save(comm::Communicator& ranks, const std::string& folder,
                        std::span<const TensorGroup> groups, const StateRecord& record,
                        const SaveOptions& options);

// ---------------------------------------------------------------- load

// A checkpoint that was opened: manifest, state and headers are read and agree; tensors are mapped and not
// yet hashed. Errors say what is missing, cut short, changed, or newer than this version reads (kInvalid;
// damage is kCorrupt).
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& path);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& path() const;
  const StateRecord& state() const;
  int64_t bytes() const;
  std::vector<std::string> groups() const;
  // Name, type and shape of each whole tensor of a group, in the order of the file; data is null.
  Result<std::vector<NamedTensor>> tensors(std::string_view group) const;

  // Hashes every byte, or the `share`-th of `shares` nearly equal ones. The error names every damaged tensor
  // with its byte range.
  Result<void> verify() const { return verify(0, 1); }
  Result<void> verify(int share, int shares) const;

  // That `model` is what was saved. Otherwise kInvalid: "The checkpoint at P is of a model with vocab 4,096;
  // this configuration has 50,257. " and then `remedy`.
  Result<void> require_model(const Fields& model, const std::string& remedy) const;

  // Copies a group into `destinations`, whose names and shapes must be exactly those of the group; all
  // differences are reported at once, before anything is copied. f32 and f64 are converted to each other.
  // What was written as one piece and is copied whole is hashed; on kCorrupt the destinations hold garbage.
  Result<void> read(std::string_view group, std::span<const NamedTensor> destinations) const;
  // The same for any tensors and boxes of the group, whatever the boxes that were written. Touches only the
  // pages that hold them and keeps none of them in memory.
  Result<void> read_some(std::string_view group, std::span<const NamedTensor> destinations) const;

 private:
  struct State;
  Checkpoint();
  std::unique_ptr<State> state_;
};

// ---------------------------------------------------------------- find

struct Latest {
  std::string path;
  int64_t step = 0;
  std::vector<std::string> notes;  // sentences: newer ones that are damaged, leftovers removed
};

// Steps of the checkpoints in `folder` by name, ascending; empty where there is no such folder.
Result<std::vector<int64_t>> saved_steps(const std::string& folder);

// The newest checkpoint of `folder` that verifies, every byte hashed; nothing when there is none. Removes
// what killed saves left behind. Errors: all are damaged (starting anew would be silent loss), or one is of a
// newer version.
Result<std::optional<Latest>> latest(const std::string& folder);
// The same by all members of `ranks` together, each hashing a share. All get the same answer; the notes are
// member 0's.
Result<std::optional<Latest>> latest(comm::Communicator& ranks, const std::string& folder);

}  // namespace ingot::checkpoint
