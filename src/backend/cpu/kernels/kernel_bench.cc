#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "backend/cpu/kernels/linear.h"
using namespace ingot;
using namespace ingot::backend::cpu;
using tensor::Buffer;
using tensor::DType;
using tensor::TensorView;
static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static Buffer buf(int64_t n) {
  auto b = std::move(Buffer::allocate(n)).value();
  auto* p = reinterpret_cast<uint16_t*>(b.data());
  uint32_t s = 1;
  for (int64_t i = 0; i < n / 2; ++i) {
    s = s * 1664525u + 1013904223u;
    p[i] = static_cast<uint16_t>(0x3f00u | (s >> 24 & 0x7fu) | ((s >> 16) & 0x8000u));
  }
  return b;
}
int main() {
  ThreadPool pool(2, flush_denormals);
  flush_denormals();
  Cpu cpu{pool};
  for (DType dt : {DType::kBF16, DType::kF32}) {
    int64_t e = tensor::size_of(dt);
    struct S {
      const char* n;
      int64_t k, o;
    } sh[] = {{"qkv", 768, 2304}, {"proj", 768, 768}, {"fc", 768, 3072}, {"fcproj", 3072, 768}};
    const int64_t R = 4096;
    std::vector<Buffer> x, y;
    for (int i = 0; i < 3; ++i) {
      x.push_back(buf(R * 3072 * e));
      y.push_back(buf(R * 3072 * e));
    }
    auto w = buf(768 * 3072 * 4), pf = buf(768 * 3072 * e), pb = buf(768 * 3072 * e),
         dw = buf(768 * 3072 * 4), bias = buf(3072 * 4), db = buf(3072 * 4);
    auto ws = buf(weight_gradient_workspace_bytes(dt, R, 3072, 3072));
    for (auto s : sh) {
      auto sp = [](Buffer& b) { return std::span<std::byte>(b.data(), size_t(b.bytes())); };
      auto med = [&](auto f) {
        std::vector<double> v;
        for (int r = 0; r < 7; ++r) {
          double t = now();
          f(r % 3);
          v.push_back(now() - t);
        }
        std::sort(v.begin(), v.end());
        return v[3];
      };
      double F = 2.0 * double(R) * double(s.k) * double(s.o);
      double tp = med([&](int) {
        pack_weight(cpu, {{w.data(), DType::kF32, {s.o, s.k}}, dt, sp(pf), sp(pb)});
      });
      double t1 = med([&](int i) {
        product(cpu, {{x[size_t(i)].data(), dt, {R, s.k}},
                      sp(pf),
                      {bias.data(), DType::kF32, {s.o}},
                      {},
                      {y[size_t(i)].data(), dt, {R, s.o}}});
      });
      double t2 = med([&](int i) {
        product(cpu,
                {{y[size_t(i)].data(), dt, {R, s.o}}, sp(pb), {}, {}, {x[size_t(i)].data(), dt, {R, s.k}}});
      });
      double t3 = med([&](int i) {
        weight_gradient(cpu, {{x[size_t(i)].data(), dt, {R, s.k}},
                              {y[size_t(i)].data(), dt, {R, s.o}},
                              1,
                              {dw.data(), DType::kF32, {s.o, s.k}},
                              {db.data(), DType::kF32, {s.o}},
                              sp(ws)});
      });
      std::printf("%s %s: fwd %.1f dx %.1f dw %.1f GF/s  pack %.2f ms\n",
                  std::string(tensor::name_of(dt)).c_str(), s.n, F / t1 / 1e9, F / t2 / 1e9, F / t3 / 1e9,
                  tp * 1e3);
    }
  }
}
