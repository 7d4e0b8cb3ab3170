#pragma once
// The CPU backend: binds instructions to the kernels of kernels/. Data types are float32 and bfloat16;
// parameters, gradients and optimizer state are float32.

#include "backend/backend.h"

namespace ingot::backend::cpu {

Result<std::unique_ptr<Backend>> make_cpu_backend();

}  // namespace ingot::backend::cpu
