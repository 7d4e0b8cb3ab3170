#include "backend/cpu/kernels/onednn_product.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace ingot::backend::cpu {
namespace {

constexpr int64_t kRows = 256;  // of one tile

using dnnl::memory;

}  // namespace

struct OneDnnProduct::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  int64_t rows = 0, a_bytes = 0, y_bytes = 0;  // bytes of one row
};

OneDnnProduct::OneDnnProduct() = default;
OneDnnProduct::~OneDnnProduct() = default;

std::unique_ptr<OneDnnProduct> OneDnnProduct::create(tensor::DType dtype, int64_t rows, int64_t reduction,
                                                     int64_t columns) {
  if (rows % kRows != 0) return nullptr;
  const auto type = dtype == tensor::DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
  std::unique_ptr<OneDnnProduct> p(new OneDnnProduct());
  omp_set_num_threads(1);  // of this thread: the library plans for the team that it would get
  try {
    p->state_ = std::make_unique<State>();
    State& s = *p->state_;
    const memory::desc a({kRows, reduction}, type, memory::format_tag::ab);
    const memory::desc w({reduction, columns}, type, memory::format_tag::any);
    const memory::desc y({kRows, columns}, type, memory::format_tag::ab);
    s.description = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, w, y), s.engine);
    s.primitive = dnnl::matmul(s.description);
    s.rows = rows;
    s.a_bytes = reduction * tensor::size_of(dtype);
    s.y_bytes = columns * tensor::size_of(dtype);
    const auto weights = static_cast<int64_t>(s.description.weights_desc().get_size());
    if (weights > reduction * columns * tensor::size_of(dtype))
      return nullptr;  // padded: would read past the end
  } catch (const dnnl::error&) {
    return nullptr;
  }
  return p;
}

void OneDnnProduct::run(const Cpu& cpu, const void* a, const void* weights, void* y) const {
  const State& s = *state_;
  cpu.pool.parallel_for(s.rows / kRows, [&](int64_t tile, int) {
    // The library takes operands without const; it reads a and weights.
    auto* from = static_cast<std::byte*>(const_cast<void*>(a)) + tile * kRows * s.a_bytes;
    auto* to = static_cast<std::byte*>(y) + tile * kRows * s.y_bytes;
    omp_set_num_threads(1);  // of this thread, and for good: OpenMP never forms a team beside our pool
    dnnl::stream stream(s.engine);
    s.primitive.execute(stream, {{DNNL_ARG_SRC, memory(s.description.src_desc(), s.engine, from)},
                                 {DNNL_ARG_WEIGHTS,
                                  memory(s.description.weights_desc(), s.engine, const_cast<void*>(weights))},
                                 {DNNL_ARG_DST, memory(s.description.dst_desc(), s.engine, to)}});
  });
}

}  // namespace ingot::backend::cpu
