#include "graph/passes/draft.h"

namespace ingot::graph {

int Draft::find_buffer(const std::string& name) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].name == name) return static_cast<int>(i);
  return -1;
}

int Draft::add_buffer(BufferPlan buffer) {
  if (const int found = find_buffer(buffer.name); found >= 0) return found;
  if (buffer.shape.rank() == 0) buffer.shape = Shape{buffer.elements};
  buffers.push_back(std::move(buffer));
  return static_cast<int>(buffers.size()) - 1;
}

Root root_of(const Graph& graph, ValueId value) {
  Root root{value, 0};
  while (graph.value(root.value).base != kNoValue) {
    const Value& view = graph.value(root.value);
    root.offset += view.base_offset * tensor::size_of(view.dtype);
    root.value = view.base;
  }
  return root;
}

}  // namespace ingot::graph
