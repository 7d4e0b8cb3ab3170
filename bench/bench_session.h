#pragma once
// A training session over made-up data for benchmarks of whole steps: weights as a run begins with, a batch
// filled.

#include "backend/cpu/kernels/cpu.h"
#include "base/thread_pool.h"
#include "train/resolve.h"

namespace ingot {

inline train::MachineFacts machine_facts() {
  train::MachineFacts machine;
  machine.threads = available_threads();
  machine.fast_bf16 = backend::cpu::has_avx512_bf16();
  return machine;
}

// `loaded` leaves nothing open that rests on data but the vocabulary.
inline Result<std::unique_ptr<train::Session>> open_session(const spec::LoadedSpec& loaded,
                                                            const train::MachineFacts& machine,
                                                            int64_t vocab_size) {
  INGOT_TRY(const train::Resolution resolution,
            train::resolve(loaded, machine, {.train_tokens = 1 << 20, .vocab_size = vocab_size}));
  INGOT_TRY(train::RunPrograms programs, train::compile_programs(resolution.run));
  INGOT_TRY(std::unique_ptr<train::Session> session,
            train::Session::create(resolution.run, std::move(programs)));
  session->initialise();
  session->fill_made_up_batch();
  return session;
}

}  // namespace ingot
