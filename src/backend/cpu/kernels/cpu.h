#pragma once
// What every CPU kernel is given: the thread pool and the choice of instructions. The kernels of this folder
// are plain functions over TensorViews; they know no graph, no program and no model. Rules that hold for all
// of them:
// - Tensors are contiguous and row-major; R = the product of all axes but the last. f32 or bf16, as each
// says.
// - Work is cut by shape alone and no sum is split between threads: the same bits at any number of threads.
// - Nothing allocates. A kernel that needs memory takes `workspace`, 64-byte aligned, of at least the bytes
// that its
//   ..._workspace_bytes says; contents need not survive between calls.
// - An optional tensor is absent when its data is null. Shapes and types are checked at entry: a mismatch is
// our bug. To add a kernel: one header of contracts, one source, one test; the backend's table binds it to an
// operation.

#include <cstddef>
#include <span>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace ingot::backend::cpu {

// AVX-512 F, BW, DQ, VL and BF16, and the system saves their registers.
bool has_avx512_bf16();

// Flushes denormals in the calling thread (FTZ and DAZ), so that all instruction sets give them one meaning:
// the bf16 dot products of hardware flush whatever the mode. Pass it to ThreadPool's on_start, and call it in
// the main thread.
void flush_denormals();

struct Cpu {
  ThreadPool& pool;
  bool native_bf16 = has_avx512_bf16();  // false: the portable path, for tests and other machines
};

using Workspace = std::span<std::byte>;

}  // namespace ingot::backend::cpu
