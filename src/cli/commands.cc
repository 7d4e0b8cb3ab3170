#include "cli/commands.h"

#include <array>

namespace ingot::cli {

// In the order of the help. The first column is what is typed; commands_test checks that it is the verb's own
// name.
std::span<const Verb> all_verbs() {
  struct Row {
    std::string_view name;
    Verb verb;
  };
  static const std::array<Verb, 12> kVerbs = [] {
    const std::array<Row, 12> rows = {{
        {"train", train_verb()},
        {"launch", launch_verb()},
        {"data build", data_build_verb()},
        {"data info", data_info_verb()},
        {"data cat", data_cat_verb()},
        {"data tokenizer train", tokenizer_train_verb()},
        {"data tokenizer info", tokenizer_info_verb()},
        {"eval", eval_verb()},
        {"generate", generate_verb()},
        {"export", export_verb()},
        {"verify", verify_verb()},
        {"bench", bench_verb()},
    }};
    std::array<Verb, 12> verbs;
    for (size_t i = 0; i < rows.size(); ++i) {
      INGOT_CHECK(rows[i].name == rows[i].verb.name, "verb {} is called {}", rows[i].name, rows[i].verb.name);
      verbs[i] = rows[i].verb;
    }
    return verbs;
  }();
  return kVerbs;
}

}  // namespace ingot::cli
