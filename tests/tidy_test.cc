// The style of this repository, as a test of its own source: layers, listed files, lengths, names. A rule
// that no tool checks does not last.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = INGOT_SOURCE_DIR;
constexpr size_t kMaxLine = 110, kMaxSource = 800, kMaxHeader = 300, kMaxFunction = 70;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Characters, not bytes.
size_t columns(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_cpp(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".h", ".cc", ".cu", ".cuh"};
  return kExtensions.contains(path.extension().string());
}

// Our own C++ files below a folder, in name order. Test data is not code.
std::vector<fs::path> cpp_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && is_cpp(entry.path()) &&
        entry.path().string().find("/testdata/") == std::string::npos)
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string shown(const fs::path& path) { return fs::relative(path, kRoot).string(); }

bool is_test_or_bench(const fs::path& path) {
  const std::string stem = path.stem().string();
  return stem.ends_with("_test") || stem.ends_with("_bench") || stem.starts_with("test_");
}

struct LayerEntry {
  std::set<std::string> deps, test_deps;
  std::string text;
};

std::set<std::string> words_after(const std::string& text, const std::string& keyword) {
  static const std::set<std::string> kKeywords = {"DEPS",       "LINK",    "SOURCES",  "TESTS",
                                                  "SLOW_TESTS", "BENCHES", "TEST_DEPS"};
  std::set<std::string> words;
  std::istringstream in(text);
  bool inside = false;
  for (std::string word; in >> word;) {
    const bool closes = word.ends_with(')');
    if (closes) word.pop_back();
    if (kKeywords.contains(word)) {
      inside = word == keyword;
    } else if (inside && !word.empty()) {
      words.insert(word);
    }
    if (closes) inside = false;
  }
  return words;
}

std::map<std::string, LayerEntry> layers() {
  std::map<std::string, LayerEntry> all;
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    const fs::path lists = entry.path() / "CMakeLists.txt";
    if (!fs::exists(lists)) continue;
    LayerEntry layer;
    layer.text = text_of(lists);
    layer.deps = words_after(layer.text, "DEPS");
    layer.test_deps = words_after(layer.text, "TEST_DEPS");
    all[entry.path().filename().string()] = layer;
  }
  return all;
}

TEST(Tidy, IncludesStayInsideDeclaredLayers) {
  const auto all = layers();
  static const std::regex kInclude(R"re(^#include "([a-z_]+)/)re");
  for (const auto& [name, layer] : all) {
    for (const fs::path& file : cpp_files(kRoot / "src" / name)) {
      for (const std::string& line : lines_of(file)) {
        std::smatch match;
        if (!std::regex_search(line, match, kInclude)) continue;
        const std::string other = match[1];
        const bool declared = other == name || layer.deps.contains(other) ||
                              (is_test_or_bench(file) && layer.test_deps.contains(other));
        EXPECT_TRUE(declared) << shown(file) << " includes layer " << other << ", which src/" << name
                              << "/CMakeLists.txt does not declare";
      }
    }
  }
}

TEST(Tidy, EverySourceIsListed) {
  for (const auto& [name, layer] : layers()) {
    for (const fs::path& file : cpp_files(kRoot / "src" / name)) {
      if (file.extension() == ".h") continue;
      const std::string listed = fs::relative(file, kRoot / "src" / name).string();
      EXPECT_NE(layer.text.find(listed), std::string::npos)
          << shown(file) << " is in no list of src/" << name << "/CMakeLists.txt";
    }
  }
}

TEST(Tidy, EveryLayerFolderIsInTheOrder) {
  const std::string order = text_of(kRoot / "cmake/layers.cmake");
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(std::regex_search(order, std::regex("\\b" + name + "\\b")))
        << "src/" << name << " is no layer";
  }
}

// A vendor's header is known only to the folder that wraps it.
TEST(Tidy, VendorHeadersStayInTheirFolder) {
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"<(oneapi/|dnnl)", "src/backend/cpu/"},
      {"<hwy/", "src/backend/cpu/"},
      {"<immintrin|<arm_neon", "src/(backend/cpu|data/tokenizer)/"},
      {"<cuda|<cublas|<cudnn", "src/backend/cuda/"},
      {"<nccl", "src/comm/nccl/"},
      {"<mpi", "src/comm/mpi/"},
      {"<uc[pt]/", "src/comm/ucx/"},
      {"<toml", "src/spec/"},
      {"<CLI/", "src/cli/"},
      {"<simdjson", "src/data/"},
      {"<pcre2", "(src/data|tests/fuzz)/"},
  };
  for (const fs::path& file : cpp_files(kRoot / "src")) {
    for (const std::string& line : lines_of(file)) {
      if (!line.starts_with("#include")) continue;
      for (const auto& [header, folder] : rules) {
        if (!std::regex_search(line, std::regex(header))) continue;
        EXPECT_TRUE(std::regex_search(shown(file), std::regex("^" + folder)))
            << shown(file) << ": " << line << " belongs in " << folder;
      }
    }
  }
}

TEST(Tidy, FilesAndLinesAreShort) {
  for (const char* folder : {"src", "tests", "bench"}) {
    for (const fs::path& file : cpp_files(kRoot / folder)) {
      const auto lines = lines_of(file);
      const size_t limit = file.extension() == ".h" ? kMaxHeader : kMaxSource;
      EXPECT_LE(lines.size(), limit) << shown(file) << " is too long: split it by what it does";
      const bool generated = !lines.empty() && lines[0].find("Generated by") != std::string::npos;
      for (size_t i = 0; i < lines.size() && !generated; ++i) {
        const bool literal = lines[i].find("R\"") != std::string::npos;
        EXPECT_TRUE(columns(lines[i]) <= kMaxLine || literal)
            << shown(file) << ":" << i + 1 << " is too long";
      }
    }
  }
}

// A function begins at a line that starts in column 0 and ends with an opening brace, and ends at the next
// "}" there.
TEST(Tidy, FunctionsAreShort) {
  static const std::regex kNotFunction(
      R"(^(namespace|class|struct|enum|union|extern|#|//|constexpr|const|static const|inline constexpr|\}))");
  for (const char* folder : {"src", "tests", "bench"}) {
    for (const fs::path& file : cpp_files(kRoot / folder)) {
      const auto lines = lines_of(file);
      size_t begin = 0;
      bool inside = false;
      for (size_t i = 0; i < lines.size(); ++i) {
        const std::string& line = lines[i];
        if (!inside && !line.empty() && line[0] != ' ' && line.ends_with('{') &&
            line.find('(') != std::string::npos && !std::regex_search(line, kNotFunction)) {
          inside = true;
          begin = i;
        } else if (inside && line.starts_with('}')) {
          inside = false;
          EXPECT_LE(i - begin, kMaxFunction)
              << shown(file) << ":" << begin + 1 << " is a function of " << i - begin << " lines";
        }
      }
    }
  }
}

TEST(Tidy, NamesSayWhatThingsAre) {
  static const std::regex kBanned("(^|_)(utils?|helpers?|common|misc|manager|v2|new)(_|$)");
  static const std::regex kSnake("^[a-z0-9_]+$");
  for (const char* folder : {"src", "tests", "bench"}) {
    for (const fs::path& file : cpp_files(kRoot / folder)) {
      std::string stem = file.stem().string();
      if (stem.ends_with("-inl")) stem.resize(stem.size() - 4);  // Highway's own ending
      EXPECT_FALSE(std::regex_search(stem, kBanned)) << shown(file) << ": name it after what it does";
      EXPECT_TRUE(std::regex_match(stem, kSnake)) << shown(file) << ": names are snake_case";
    }
  }
}

TEST(Tidy, HeadersAreGuardedAndNothingIsLeftOver) {
  const std::regex left_over(
      "\\b(FIX"
      "ME|TO"
      "DO|XX"
      "X)\\b");
  for (const char* folder : {"src", "tests", "bench"}) {
    for (const fs::path& file : cpp_files(kRoot / folder)) {
      const std::string text = text_of(file);
      // Highway includes its -inl.h once per target, on purpose.
      if (file.extension() == ".h" && !file.stem().string().ends_with("-inl")) {
        EXPECT_NE(text.find("#pragma once"), std::string::npos) << shown(file) << " lacks #pragma once";
      }
      EXPECT_FALSE(std::regex_search(text, left_over)) << shown(file) << " has a left-over mark";
      EXPECT_EQ(text.find("using namespace "
                          "std"),
                std::string::npos)
          << shown(file);
    }
  }
}

// The README lists the verbs; the table in cli/commands.cc is what exists.
TEST(Tidy, ReadmeNamesEveryVerb) {
  const fs::path table = kRoot / "src/cli/commands.cc";
  if (!fs::exists(table)) GTEST_SKIP() << "no verbs yet";
  const std::string code = text_of(table), readme = text_of(kRoot / "README.md");
  static const std::regex kRow(R"re(^\s+\{"([a-z]+( [a-z]+)*)",)re", std::regex::multiline);
  size_t verbs = 0;
  for (std::sregex_iterator it(code.begin(), code.end(), kRow), end; it != end; ++it, ++verbs) {
    EXPECT_NE(readme.find("ingot " + (*it)[1].str()), std::string::npos)
        << "README does not mention ingot " << (*it)[1];
  }
  EXPECT_GT(verbs, 0U) << "no row of the table in cli/commands.cc was recognised";
}

}  // namespace
