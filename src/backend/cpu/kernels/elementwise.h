#pragma once
// Element by element: activations, add, dropout, rotary embedding, casts and fills. Tensors of one call have
// one type, f32 or bf16, where nothing else is said. Outputs may be an input.

#include "backend/cpu/kernels/cpu.h"
#include "base/random.h"

namespace ingot::backend::cpu {

// gelu_tanh: x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))); gelu_erf: x Φ(x) (Hendrycks and Gimpel 2016); silu: x
// σ(x).
enum class Activation : uint8_t { kGeluTanh, kGeluErf, kSilu };

void activation_forward(const Cpu& cpu, Activation kind, const tensor::TensorView& x,
                        const tensor::TensorView& y);
// dx = dy · f'(x)
void activation_backward(const Cpu& cpu, Activation kind, const tensor::TensorView& x,
                         const tensor::TensorView& dy, const tensor::TensorView& dx);

// y = silu(gate) · up (Shazeer 2020); all [R, F].
struct SwigluArgs {
  tensor::TensorView gate, up;
  tensor::TensorView y;           // forward
  tensor::TensorView dy;          // backward reads
  tensor::TensorView dgate, dup;  // backward writes; either may be absent
};
void swiglu_forward(const Cpu& cpu, const SwigluArgs& args);
void swiglu_backward(const Cpu& cpu, const SwigluArgs& args);

// y = a + b; a's type may differ from b's, y has a's.
void add(const Cpu& cpu, const tensor::TensorView& a, const tensor::TensorView& b,
         const tensor::TensorView& y);

// y[b, t, c] = x · [random_uniform(key, position · C + c, sample) >= rate] / (1 − rate): forward, and with dy
// for x backward. Bit for bit what base/random.h draws.
struct DropoutArgs {
  PhiloxKey key{};
  float rate = 0;               // in [0, 1)
  tensor::TensorView x;         // [B, T, C]
  tensor::TensorView position;  // [B, T] i32, optional: t
  tensor::TensorView sample;    // [B] i64
  int64_t channels = 0;         // C of the whole sample where x is a slice of channels; 0: x's own
  int64_t channel_offset = 0;
  tensor::TensorView y;  // [B, T, C]
};
void dropout(const Cpu& cpu, const DropoutArgs& args);

// Rotary embedding (Su et al. 2021) in the half-split layout of Hugging Face: with angle a = p · inv_freq[i],
// y[i] = x[i] cos a − x[i+D/2] sin a, y[i+D/2] = x[i+D/2] cos a + x[i] sin a. sign −1 gives the gradient.
struct RotaryArgs {
  tensor::TensorView x;          // [B, T, heads·D]
  int64_t head_size = 0;         // D, even
  tensor::TensorView inv_freq;   // [D/2] f32, scaling included
  tensor::TensorView position;   // [B, T] i32, optional: t
  tensor::TensorView doc_start;  // [B, T] i32, optional: the angle reads position − doc_start
  float sign = 1;
  tensor::TensorView y;  // [B, T, heads·D]
};
void rotary(const Cpu& cpu, const RotaryArgs& args);

// to = factor · from; f32, bf16, either way
void cast(const Cpu& cpu, const tensor::TensorView& from, const tensor::TensorView& to, float factor);
void zero(const Cpu& cpu, const tensor::TensorView& to);
// y += factor · x; each f32 or bf16.
void accumulate(const Cpu& cpu, float factor, const tensor::TensorView& x, const tensor::TensorView& y);

}  // namespace ingot::backend::cpu
