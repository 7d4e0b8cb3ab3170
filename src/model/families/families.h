#pragma once
// The builder of each family, one file each; families.cc lists them. Internal to model.

#include "graph/builder.h"
#include "spec/spec.h"

namespace ingot::model {

void build_gpt2(graph::Builder& builder, const spec::ModelSpec& spec);
void build_llama(graph::Builder& builder, const spec::ModelSpec& spec);

}  // namespace ingot::model
