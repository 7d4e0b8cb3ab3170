#include <cstring>

#include "backend/reference/element.h"
#include "backend/reference/reference.h"

namespace ingot::backend::reference {

void copy(const KernelArgs& args, void*) {
  const TensorView &from = args.inputs[0], &to = args.outputs[0];
  if (from.data != to.data && from.bytes() > 0)
    std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
}

void cast(const KernelArgs& args, void*) {
  const Elements from(args.inputs[0]), to(args.outputs[0]);
  const double scale = args.attributes->scale == 0 ? 1 : args.attributes->scale;
  for (int64_t i = 0; i < args.outputs[0].elements(); ++i) to.set(i, scale * from[i]);
}

void zero(const KernelArgs& args, void*) {
  for (const TensorView& to : args.outputs)
    if (to.bytes() > 0) std::memset(to.data, 0, static_cast<size_t>(to.bytes()));
}

// Part group_index of the input along attributes->dim.
void slice(const KernelArgs& args, void*) {
  const TensorView &from = args.inputs[0], &to = args.outputs[0];
  const int dim = args.attributes->dim;
  int64_t outer = 1, part = tensor::size_of(to.dtype);
  for (int axis = 0; axis < to.shape.rank(); ++axis) (axis < dim ? outer : part) *= to.shape[axis];
  const int64_t whole = part * args.attributes->group_size;
  for (int64_t block = 0; block < outer; ++block)
    std::memcpy(to.as<std::byte>() + block * part,
                from.as<std::byte>() + block * whole + args.group_index * part, static_cast<size_t>(part));
}

}  // namespace ingot::backend::reference
