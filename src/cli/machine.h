#pragma once
// Facts about this machine that choices are made of: measured once, kept in the cache folder, said again next
// time.

#include <functional>
#include <optional>
#include <string>

#include "train/resolve.h"

namespace ingot::cli {

struct Machine {
  train::MachineFacts facts;
  std::string
      description;  // "2 cores, AVX-512 BF16, 23.4 GiB free; measured 412 GFLOP/s bf16 (0.8 s, kept in ...)"
};

// $INGOT_CACHE, else $XDG_CACHE_HOME/ingot, else ~/.cache/ingot. Read here and nowhere else.
std::string cache_folder();

// With `measure`: FLOP/s of the precision that a run here would use (`precision`, or bf16 where the processor
// is fast at it), measured with `threads` (0: all that the process has) or kept from before for the same
// processor and threads. Without: the facts that cost nothing.
Result<Machine> find_machine(int threads, std::optional<spec::Precision> precision, bool measure);

// Samples the matrix peak of `precision` during a run; prepares itself at the first call. 0 when it cannot be
// had.
std::function<double()> peak_sampler(graph::Precision precision, int threads);

}  // namespace ingot::cli
