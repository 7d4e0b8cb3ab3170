#pragma once
// Reads, checks, prints and compares configurations. Files are TOML, model blocks use the words of
// config.json, other engines' spellings are accepted with a note. It looks at no machine and no data: what
// depends on them is chosen later. All mistakes are found before any is reported; an Error's message then is
// the whole table, one line each.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/spec.h"

namespace ingot::spec {

struct Mistake {
  std::string place;    // "run.toml:7", "--set", "run.toml"
  std::string subject;  // "train.tp = 4", or the key alone where it is unknown
  std::string text;     // what is wrong and what is allowed
};

// The table of design: aligned columns, then "3 mistakes, nothing was started".
std::string render_mistakes(const std::vector<Mistake>& mistakes);

struct Origin {
  std::string key;    // "train.train_steps"
  std::string place;  // where it was set
};

struct LoadedSpec {
  RunSpec spec;                    // resolved and valid on its own
  std::vector<std::string> notes;  // one line for each alias used or word ignored
  std::vector<Origin> origins;     // of keys that were set; the rest are defaults
  bool is_set(const std::string& key) const;
};

// `overrides` are "block.key=value" in order, the value as in TOML or a bare word; `path` may be empty:
// defaults and overrides alone. model.from is read here, relative to the working folder or the file's own.
Result<LoadedSpec> load_spec(const std::string& path, const std::vector<std::string>& overrides);
Result<LoadedSpec> parse_spec(const std::string& text, const std::string& name,
                              const std::vector<std::string>& overrides);

// Contradictions between fields, places unknown. load_spec calls it.
std::vector<Mistake> validate(const RunSpec& spec);

struct Layout {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  bool operator==(const Layout&) const = default;
};

// The layout on `world_size` ranks, with the checks that need it (product of the degrees, batch divisible by
// micro_batch_size · dp). `loaded` gives places for the message.
Result<Layout> check_layout(const LoadedSpec& loaded, int64_t world_size);

// Samples of one step, from global_batch_size or global_batch_tokens / seq_len; unset when neither is.
std::optional<int64_t> global_batch_samples(const RunSpec& spec);

// One sentence for each value that this version can read but not do. Empty: all can be done.
std::vector<std::string> not_yet(const RunSpec& spec);
// What to write for a key of which this version cannot do every value ("use 1"); empty where it can.
std::string_view not_yet_instead(std::string_view key);

// TOML with a comment for each key, unset ones commented out. parse_spec(dump_spec(s)) is s.
std::string dump_spec(const RunSpec& spec);

struct Difference {
  std::string key, before, after;  // values as TOML, "unset" where there is none
};
std::vector<Difference> diff_specs(const RunSpec& before, const RunSpec& after);

struct KeyHelp {
  std::string key;          // "train.train_steps"
  std::string description;  // with unit
  std::string choices;      // "fp32, bf16, fp16, fp8", empty where free
  std::string fallback;     // default as TOML, or what unset means
  std::string also;         // other engines' spellings
};
std::vector<KeyHelp> list_keys(const std::string& family);
std::string help_text(const std::string& family);

// Divisors of n nearest to `wanted`, at most one below and one above: "4, 6".
std::string nearest_divisors(int64_t n, int64_t wanted);

}  // namespace ingot::spec
