#include "spec/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "base/file.h"
#include "spec/fields.h"
#include "spec/names.h"

namespace ingot::spec {
namespace {

const std::string kData = std::string(INGOT_SOURCE_DIR) + "/src/spec/testdata/";

std::vector<std::string> stems(const std::string& folder) {
  std::vector<std::string> result;
  const auto listed = list_directory(kData + folder);
  for (const std::string& name : listed.value()) {
    if (name.ends_with(".toml")) result.push_back(name.substr(0, name.size() - 5));
  }
  return result;
}

RunSpec parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto loaded = parse_spec(text, "run.toml", overrides);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return loaded ? loaded->spec : RunSpec{};
}

std::string refused(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const auto loaded = parse_spec(text, "run.toml", overrides);
  return loaded ? "accepted" : loaded.error().message;
}

TEST(Config, MistakesAreAsWrittenDown) {
  const auto names = stems("mistakes");
  ASSERT_GE(names.size(), 5U);
  for (const std::string& name : names) {
    const auto text = read_file(kData + "mistakes/" + name + ".toml");
    const std::string path = kData + "mistakes/" + name + ".txt";
    // After an intended change: INGOT_WRITE_GOLDEN=1 spec_test, and read the difference.
    if (std::getenv("INGOT_WRITE_GOLDEN") != nullptr) {
      ASSERT_TRUE(write_file_atomically(path, refused(*text) + "\n"));
    }
    const auto expected = read_file(path);
    EXPECT_EQ(refused(*text) + "\n", expected ? *expected : "") << name;
  }
}

TEST(Config, OtherEnginesWordsAreReadWithANote) {
  for (const std::string& name : stems("good")) {
    const auto loaded = parse_spec(*read_file(kData + "good/" + name + ".toml"), name + ".toml", {});
    ASSERT_TRUE(loaded) << loaded.error().message;
    std::string notes;
    for (const std::string& note : loaded->notes) notes += note + "\n";
    const auto expected = read_file(kData + "good/" + name + ".txt");
    EXPECT_EQ(notes, expected ? *expected : "") << name;
  }
  const RunSpec nano = load_spec(kData + "good/nanogpt.toml", {})->spec;
  EXPECT_EQ(nano.model.family, "gpt2");
  EXPECT_EQ(nano.model.hidden_size, 128);
  EXPECT_EQ(nano.model.head_dim, 32);
  EXPECT_EQ(nano.model.intermediate_size, 512);
  EXPECT_EQ(nano.model.max_positions, 64);
  EXPECT_FALSE(nano.model.bias);
  EXPECT_EQ(nano.data.seq_len, 64);
  EXPECT_EQ(nano.train.micro_batch_size, 12);
  EXPECT_EQ(nano.train.train_steps, 2000);
  EXPECT_EQ(nano.run.precision, Precision::kBf16);
  const RunSpec titan = load_spec(kData + "good/torchtitan.toml", {})->spec;
  EXPECT_EQ(titan.model.num_kv_heads, 2);
  EXPECT_EQ(titan.parallel.tp, 2);
  EXPECT_EQ(titan.parallel.recompute, Recompute::kSelective);
  EXPECT_EQ(titan.data.seq_len, 2048);
  EXPECT_EQ(titan.train.log_interval, 5);
}

TEST(Config, DefaultsAreValidAndDoable) {
  const RunSpec spec = parsed("");
  EXPECT_EQ(spec, RunSpec{});
  EXPECT_TRUE(not_yet(spec).empty());
  EXPECT_FALSE(spec.model.is_sized());
}

TEST(Config, UnitsAreRead) {
  const RunSpec spec = parsed(
      "[train]\ntrain_tokens = \"10G\"\nmax_time = \"1h30m\"\n[parallel]\nbucket_size = "
      "\"25MiB\"\ncomm_timeout = 5\n"
      "[cluster.links.network]\nbandwidth = \"400Gbit/s\"\nlatency = \"5us\"\n");
  EXPECT_EQ(spec.train.train_tokens, 10'000'000'000);
  EXPECT_EQ(spec.train.max_time, 5400);
  EXPECT_EQ(spec.parallel.bucket_size, 25 << 20);
  EXPECT_EQ(spec.cluster.links[0].second.bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(spec.cluster.links[0].second.latency, 5e-6);
}

TEST(Config, OverridesWinOverTheFileAndEachOther) {
  const RunSpec spec = parsed("[train]\ntrain_steps = 5\n",
                              {"train.train_steps=100", "train.max_iters = 200", "data.train=book one.txt",
                               "run.seed=7", "model.rope_scaling.factor=2", "optimizer.name=adamw",
                               "train.micro_batch_size=auto", "data.validation=0.1"});
  EXPECT_EQ(spec.train.train_steps, 200);
  EXPECT_EQ(spec.data.train, std::vector<std::string>{"book one.txt"});
  EXPECT_EQ(spec.run.seed, 7);
  EXPECT_EQ(spec.model.rope_scaling->factor, 2);
  EXPECT_FALSE(spec.train.micro_batch_size);
  EXPECT_DOUBLE_EQ(spec.data.validation.fraction, 0.1);
  EXPECT_EQ(refused("", {"train.train_steps", "train.train_stepz=1"}),
            "--set  train.train_steps  needs block.key=value, for instance train.train_steps=100\n"
            "--set  train.train_stepz  unknown key; did you mean train_steps?\n"
            "2 mistakes, nothing was started");
  const auto loaded = parse_spec("[train]\ntrain_steps = 5\n", "run.toml", {"run.seed=7"});
  EXPECT_TRUE(loaded->is_set("train.train_steps"));
  EXPECT_FALSE(loaded->is_set("train.max_time"));
}

// Puts another legal value into every field, one at a time, and all together.
Value another_value(const BoundField& field) {
  Value value;
  const std::string now = field.write();
  const std::string choices = field.choices;
  if (!choices.empty()) {
    const std::string last = choices.substr(choices.rfind(' ') + 1);
    value.data = now == "\"" + last + "\"" ? choices.substr(0, choices.find(',')) : last;
  } else {
    for (const char* text :
         {"true", "false", "7", "2", "0.25", "\"seven \\\" \\\\ \\n é\"", "[3, 5]", "[\"a\", \"b\"]",
          "{factor = 3.5}", "{\"x/y\" = 0.5, z = 2}", "{net = {bandwidth = 1e9, latency = 0.001}}"}) {
      value = read_override_value(text);
      if (!field.read(value) && field.write() != now) break;
    }
  }
  return value;
}

TEST(Config, EveryKeyGoesRoundThroughADump) {
  for (const char* family : {"gpt2", "llama"}) {
    RunSpec base;
    base.model = default_model(family);
    const size_t count = bind_fields(&base).size();
    EXPECT_GE(count, 80U);
    size_t changed = 0;
    for (size_t i = 0; i < count; ++i) {
      RunSpec spec = base;
      const auto fields = bind_fields(&spec);
      const bool one_choice = !fields[i].choices.empty() && fields[i].choices.find(',') == std::string::npos;
      if (fields[i].info.key == "family" || fields[i].info.key == "from" || one_choice) continue;
      const std::string before = fields[i].write();
      ASSERT_FALSE(fields[i].read(another_value(fields[i])).has_value()) << fields[i].key();
      EXPECT_NE(fields[i].write(), before) << fields[i].key();
      const auto differences = diff_specs(base, spec);
      ASSERT_EQ(differences.size(), 1U) << fields[i].key();
      EXPECT_EQ(differences[0].key, fields[i].key());
      // Some single values contradict the rest of an empty configuration; then only the parts are checked.
      if (!validate(spec).empty()) continue;
      const auto loaded = parse_spec(dump_spec(spec), "dump", {});
      ASSERT_TRUE(loaded) << dump_spec(spec) << loaded.error().message;
      RunSpec resolved = spec;
      resolve_model(&resolved.model);
      EXPECT_EQ(loaded->spec, resolved) << fields[i].key();
      EXPECT_TRUE(loaded->notes.empty()) << loaded->notes[0];
      ++changed;
    }
    EXPECT_GE(changed, 70U);
  }
}

TEST(Config, DumpOfASizedModelIsIdentity) {
  for (const char* name : {"nanogpt", "torchtitan"}) {
    const RunSpec spec = load_spec(kData + "good/" + name + ".toml", {})->spec;
    EXPECT_EQ(parsed(dump_spec(spec)), spec);
    EXPECT_TRUE(diff_specs(spec, spec).empty());
  }
}

TEST(Config, AliasesOfABlockAreUnambiguous) {
  for (const char* family : {"gpt2", "llama"}) {
    RunSpec spec;
    spec.model = default_model(family);
    const auto fields = bind_fields(&spec);
    for (const BoundField& a : fields) {
      for (const BoundField& b : fields) {
        if (&a == &b || a.block != b.block) continue;
        EXPECT_NE(a.info.key, b.info.key) << a.key();
        EXPECT_FALSE(b.is_also(a.info.key)) << a.key() << " is also " << b.key();
        std::string_view rest = a.info.also;
        while (!rest.empty()) {
          const std::string_view word = rest.substr(0, rest.find(' '));
          EXPECT_FALSE(b.is_also(word)) << word << " is both " << a.key() << " and " << b.key();
          rest.remove_prefix(std::min(rest.size(), word.size() + 1));
        }
      }
    }
  }
}

TEST(Config, HelpNamesEveryKey) {
  const std::string help = help_text("llama");
  for (const KeyHelp& key : list_keys("llama")) {
    EXPECT_FALSE(key.description.empty()) << key.key;
    EXPECT_NE(help.find(key.key.substr(key.key.find('.') + 1)), std::string::npos) << key.key;
  }
  EXPECT_NE(help.find("warmup_steps             steps from 0 to the peak  [1 % of the steps]"),
            std::string::npos)
      << help;
}

TEST(Config, NotYetNamesTheKeyAndTheWayOut) {
  const RunSpec spec = parsed("", {"train.max_cost=5", "parallel.cp_mode=ulysses", "run.precision=fp8",
                                   "data.mixture={a = 1.0}", "parallel.ep=1"});
  const auto sentences = not_yet(spec);
  ASSERT_EQ(sentences.size(), 4U);
  EXPECT_EQ(sentences[0], "run.precision = \"fp8\" is not in this version yet; use bf16 or fp32");
  EXPECT_EQ(sentences[2], "train.max_cost = 5 is not in this version yet; use train.max_time");
}

TEST(Config, ASequenceDividesIntoTwoPartsForEachRankOfCp) {
  const auto mistake = [](const std::vector<std::string>& overrides) {
    const auto spec = parse_spec("", "run.toml", overrides);
    return spec ? std::string() : spec.error().message;
  };
  EXPECT_EQ(mistake({"parallel.cp=4", "data.seq_len=1024"}), "");
  EXPECT_EQ(mistake({"parallel.cp=1", "data.seq_len=1001"}), "");
  const std::string said = mistake({"parallel.cp=3", "data.seq_len=1024"});
  EXPECT_NE(said.find("data.seq_len = 1024"), std::string::npos) << said;
  EXPECT_NE(said.find("6 parts"), std::string::npos) << said;
  EXPECT_NE(said.find("1020, 1026"), std::string::npos) << said;
}

TEST(Config, LayoutAgainstTheWorld) {
  const auto load = [](const std::vector<std::string>& overrides) {
    return *parse_spec("[train]\nglobal_batch_size = 24\nmicro_batch_size = 3\n", "run.toml", overrides);
  };
  EXPECT_EQ(*check_layout(load({}), 1), (Layout{1, 1, 1, 1, 1}));
  EXPECT_EQ(*check_layout(load({"parallel.tp=2"}), 8), (Layout{4, 2, 1, 1, 1}));
  EXPECT_EQ(check_layout(load({"parallel.tp=4"}), 2).error().message,
            "--set  parallel.tp = 4  needs a multiple of 4 ranks, this run has 2; nearest degrees: 2\n"
            "1 mistake, nothing was started");
  EXPECT_EQ(check_layout(load({"parallel.dp=2"}), 8).error().message,
            "--set  parallel.dp = 2  with tp 1, cp 1, pp 1 needs 2 ranks, this run has 8; use dp = 8\n"
            "1 mistake, nothing was started");
  EXPECT_EQ(
      check_layout(load({}), 5).error().message,
      "run.toml:2  train.global_batch_size = 24  24 samples are not a multiple of micro_batch_size 3 x dp 5\n"
      "                                          = 15; nearest that are: 15, 30\n"
      "1 mistake, nothing was started");
  EXPECT_FALSE(check_layout(load({"parallel.ep=3"}), 4));
}

TEST(Config, ADumpFitsAScreenAndMarksWhatIsNotYet) {
  std::istringstream dump(dump_spec(RunSpec{}));
  std::string line, key, block;
  std::map<std::string, std::string> comments;
  while (std::getline(dump, line)) {
    EXPECT_LE(line.size(), 100U) << line;
    if (line.starts_with("[")) block = line.substr(1, line.size() - 2);
    const size_t equals = line.substr(0, 35).find(" =");
    if (equals != std::string::npos) key = line.substr(line.starts_with("# ") ? 2 : 0, equals);
    while (key.ends_with(' ') || key.ends_with('=')) key.pop_back();
    if (line.size() > 37) comments[block + "." + key] += line.substr(36);
  }
  int marked = 0;
  for (const auto& [name, comment] : comments) {
    const std::string instead(not_yet_instead(name));
    marked += instead.empty() ? 0 : 1;
    EXPECT_EQ(comment.find("this version") != std::string::npos, !instead.empty()) << name << comment;
  }
  EXPECT_GT(marked, 0);
  EXPECT_EQ(not_yet_instead("train.train_steps"), "");
}

TEST(Config, NearestDivisors) {
  EXPECT_EQ(nearest_divisors(384, 5), "4, 6");
  EXPECT_EQ(nearest_divisors(2, 4), "2");
  EXPECT_EQ(nearest_divisors(12, 6), "6");
  EXPECT_EQ(nearest_divisors(7, 3), "1, 7");
}

// Cut, doubled and overwritten bytes: it must end in a value or a message, never in a crash.
TEST(Config, DamagedTextEndsInAMessage) {
  std::mt19937 random(7);
  const std::string seed = dump_spec(RunSpec{}) + *read_file(kData + "mistakes/keys.toml");
  int refusals = 0;
  for (int round = 0; round < 150; ++round) {
    std::string text = seed;
    for (int change = 0; change < 1 + round % 7; ++change) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 40);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
    }
    const auto loaded = parse_spec(text, "fuzz", {});
    if (!loaded) {
      ++refusals;
      EXPECT_FALSE(loaded.error().message.empty());
    }
  }
  EXPECT_GT(refusals, 100);
  EXPECT_NE(refused(std::string(5000, '[')), "accepted");
  EXPECT_NE(refused("[=\n"), "accepted");
  EXPECT_NE(refused("a = " + std::string(5000, '[')), "accepted");
  EXPECT_NE(refused("", {"train.train_steps=" + std::string(3000, '[')}), "accepted");
  EXPECT_NE(refused("", {std::string(3000, '.') + "=1"}), "accepted");
}

}  // namespace
}  // namespace ingot::spec
