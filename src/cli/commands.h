#pragma once
// The verbs. To add one: a file <verb>_command.cc with its options and its run function, and a row in
// commands.cc.

#include <span>

#include "cli/arguments.h"

namespace ingot::cli {

std::span<const Verb> all_verbs();

// One per verb; defined in <verb>_command.cc.
Verb train_verb();
Verb launch_verb();
Verb eval_verb();
Verb generate_verb();
Verb verify_verb();
Verb bench_verb();
Verb export_verb();
Verb data_build_verb();
Verb data_info_verb();
Verb data_cat_verb();
Verb tokenizer_train_verb();
Verb tokenizer_info_verb();

}  // namespace ingot::cli
