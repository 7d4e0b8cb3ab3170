#include "data/dataset_builder.h"

#include <map>

#include "base/file.h"
#include "data/byte_source.h"
#include "data/describe.h"
#include "data/test_folder.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {
namespace {

std::string words(size_t count, size_t start) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += "w" + std::to_string((start + i * i) % 1009) + "ord and\n";
  return text;
}

// Every file of a folder.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = slurp(entry.path().string());
  }
  return files;
}

class BuilderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.out = (folder_ / "out");
    options_.shard_bytes = 65536;
    options_.block_bytes = 4096;
  }
  std::string write_json_lines(size_t lines) {
    std::string json;
    for (size_t i = 0; i < lines; ++i) {
      std::string text = words(1 + i % 17, i);
      for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
        text.replace(at, 1, "\\n");
      json += "{\"text\": \"" + text + "\"}\n";
    }
    return folder_.write("corpus.jsonl", json);
  }
  Result<BuildReport> build() { return build_dataset(*tokenizer_, options_); }
  Dataset built() {
    const auto report = build();
    EXPECT_TRUE(report) << report.error().message;
    auto dataset = Dataset::open(options_.out);
    EXPECT_TRUE(dataset) << dataset.error().message;
    return std::move(dataset).value();
  }
  std::string text_of(const TokenStream& stream) {
    std::vector<int32_t> ids(static_cast<size_t>(stream.tokens()));
    EXPECT_TRUE(stream.read(0, ids));
    std::erase(ids, *tokenizer_->end_of_text());
    return tokenizer_->decode(ids);
  }

  TestFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = byte_tokenizer();
  BuildOptions options_;
};

TEST_F(BuilderTest, OneDocumentIsCutAtTheLastPart) {
  const std::string text = words(20000, 3);
  options_.sources = {folder_.write("book.txt", text)};
  options_.validation_fraction = 0.1;
  const Dataset dataset = built();
  const int64_t tokens = static_cast<int64_t>(text.size()) + 1;
  const int64_t kept = static_cast<int64_t>(static_cast<double>(tokens) * 0.9);
  EXPECT_EQ(dataset.manifest().validation_rule, "last part of one document");
  EXPECT_EQ(dataset.train().tokens(), kept);
  EXPECT_EQ(dataset.validation().tokens(), tokens - kept);
  EXPECT_EQ(dataset.train().text_bytes(), kept);
  EXPECT_EQ(dataset.validation().text_bytes(), tokens - kept - 1);
  EXPECT_EQ(text_of(dataset.train()) + text_of(dataset.validation()), text);
  EXPECT_GT(dataset.train().shards().size(), 5u);
  for (const ShardRecord& shard : dataset.manifest().train.shards) EXPECT_LE(shard.tokens, 32768);
  EXPECT_EQ(dataset.train().documents(), 1);
  EXPECT_EQ(contents(options_.out).count("first-document"), 0u);
}

TEST_F(BuilderTest, HowMuchOfTheFirstDocumentWaitsInMemoryChangesNothing) {
  const std::string book = folder_.write("book.txt", words(6000, 3));
  const std::string more = write_json_lines(40);
  options_.piece_bytes = 5000;
  options_.replace = true;
  int in_validation = 0;
  for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
    options_.sources = variant == 0 ? std::vector{book} : std::vector{book, more};
    options_.validation_fraction = variant == 0 ? 0.1 : 0.4;
    options_.seed = static_cast<uint64_t>(variant);
    options_.held_tokens = int64_t{1} << 30;
    const Dataset dataset = built();
    in_validation += variant > 0 && dataset.validation().tokens() > dataset.train().tokens();
    const auto in_memory = contents(options_.out);
    for (const int64_t held : {0, 1, 20000}) {
      options_.held_tokens = held;
      ASSERT_TRUE(build());
      EXPECT_TRUE(contents(options_.out) == in_memory) << held << " tokens, variant " << variant;
    }
  }
  EXPECT_GT(in_validation, 0) << "no seed sends the book to validation";
  EXPECT_LT(in_validation, 7);
}

TEST_F(BuilderTest, OnlyADataSetIsReplaced) {
  const std::string corpus = folder_.write("corpus/a.txt", words(100, 1));
  options_.sources = {(folder_ / "corpus")};
  options_.replace = true;
  const auto refused = [&](const std::string& out, const std::string& because) {
    options_.out = out;
    const auto report = build();
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message.find(because), std::string::npos) << report.error().message;
    EXPECT_EQ(slurp(corpus), words(100, 1));
  };
  refused((folder_ / "corpus"), "holds a.txt, which no build of a data set wrote");
  refused(corpus, "is not a data set folder");
  std::filesystem::create_directories((folder_ / "empty"));
  options_.out = (folder_ / "empty");
  ASSERT_TRUE(build());
  ASSERT_TRUE(build());  // over the one just built
  folder_.write("empty/notes.txt", "mine");
  refused((folder_ / "empty"), "holds notes.txt");
  EXPECT_EQ(slurp((folder_ / "empty/notes.txt")), "mine");
}

TEST_F(BuilderTest, ManyDocumentsAreSplitByHash) {
  options_.sources = {write_json_lines(1000)};
  options_.validation_fraction = 0.1;
  const Dataset dataset = built();
  EXPECT_EQ(dataset.manifest().validation_rule, "documents by hash");
  EXPECT_EQ(dataset.train().documents() + dataset.validation().documents(), 1000);
  EXPECT_NEAR(static_cast<double>(dataset.validation().documents()), 100, 35);
  // A document ends where the next begins, with an end-of-text token.
  for (const TokenStream* stream : {&dataset.train(), &dataset.validation()}) {
    for (int64_t d = 1; d < stream->documents(); ++d) {
      int32_t last = 0;
      ASSERT_TRUE(stream->read(stream->document(d) - 1, std::span(&last, 1)));
      ASSERT_EQ(last, *tokenizer_->end_of_text());
    }
    EXPECT_EQ(stream->text_bytes() + stream->documents(), stream->tokens());
  }
  options_.seed = 1;
  options_.out = (folder_ / "other");
  EXPECT_NE(built().validation().tokens(), dataset.validation().tokens());
}

TEST_F(BuilderTest, BytesDoNotDependOnThreadsOrPieces) {
  options_.sources = {write_json_lines(500), folder_.write("long.txt", words(6000, 9))};
  options_.validation_fraction = 0.2;
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 3, 8}) {
    for (const int64_t piece_bytes : {700, 40000, 1 << 20}) {
      options_.threads = threads;
      options_.piece_bytes = piece_bytes;
      options_.replace = true;
      ASSERT_TRUE(build());
      if (first.empty()) first = contents(options_.out);
      EXPECT_TRUE(contents(options_.out) == first) << threads << " threads, pieces of " << piece_bytes;
    }
  }
}

TEST_F(BuilderTest, ValidationOfItsOwn) {
  const std::string train = words(100, 1), validation = words(50, 2);
  options_.sources = {folder_.write("a.txt", train)};
  options_.validation_sources = {folder_.write("v.txt", validation)};
  const Dataset dataset = built();
  EXPECT_EQ(dataset.manifest().validation_rule, "own sources");
  EXPECT_EQ(text_of(dataset.train()), train);
  EXPECT_EQ(text_of(dataset.validation()), validation);
}

TEST_F(BuilderTest, FolderHoldsTheTokenizerAndHashes) {
  options_.sources = {folder_.write("a.txt", words(100, 1))};
  const Dataset dataset = built();
  const auto again = load_tokenizer(dataset.tokenizer_path());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->fingerprint(), tokenizer_->fingerprint());
  const auto description = describe_dataset(options_.out, true);
  ASSERT_TRUE(description);
  EXPECT_TRUE(description->damaged.empty());
  EXPECT_NE(description->text.find("all sound"), std::string::npos) << description->text;
}

TEST_F(BuilderTest, VerifyNamesDamage) {
  options_.sources = {folder_.write("a.txt", words(6000, 1))};
  const Dataset dataset = built();
  const std::string path = options_.out + "/train-00001.tok";
  std::string bytes = slurp(path);
  bytes[4096 + 2 * 4096 + 5] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  const auto description = describe_dataset(options_.out, true);
  ASSERT_TRUE(description) << description.error().message;
  ASSERT_EQ(description->damaged.size(), 1u);
  EXPECT_EQ(description->damaged[0].find(path + ": checksum of block 2 is wrong"), 0u);
  EXPECT_NE(description->json.find("checksum of block 2"), std::string::npos);
}

TEST_F(BuilderTest, CatPrintsDocuments) {
  options_.sources = {
      folder_.write("c.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two two\"}\n{\"text\": \"three\"}\n")};
  options_.validation_fraction = 0;
  const Dataset dataset = built();
  const auto cat = [&](CatOptions cat_options) {
    std::string out;
    const auto printed =
        print_documents(dataset, *tokenizer_, cat_options, [&out](std::string_view s) -> Result<void> {
          out += s;
          return {};
        });
    return printed ? out : printed.error().message;
  };
  CatOptions middle;
  middle.first_document = 1;
  const std::string text = cat(middle);
  EXPECT_EQ(text.find("two two"), 0u);
  EXPECT_EQ(text.back(), '\n');
  middle.ids = true;
  middle.max_tokens = 3;
  EXPECT_EQ(cat(middle), "116 119 111\n");
  middle.first_document = 3;
  EXPECT_NE(cat(middle).find("There is no document 3"), std::string::npos);
  middle.split = "test";
  EXPECT_NE(cat(middle).find("There is no part test"), std::string::npos);
}

TEST_F(BuilderTest, MistakesLeaveNothingBehind) {
  options_.sources = {(folder_ / "missing.txt")};
  EXPECT_EQ(build().error().code, ErrorCode::kNotFound);
  options_.sources = {folder_.write("x.jsonl", "{\"body\": \"text\"}\n")};
  EXPECT_NE(build().error().message.find("fields there are body"), std::string::npos);
  options_.sources = {folder_.write("a.txt", "some text")};
  options_.validation_fraction = 1;
  EXPECT_NE(build().error().message.find("must be at least 0 and below 1"), std::string::npos);
  options_.validation_fraction = 0.005;
  EXPECT_FALSE(std::filesystem::exists(options_.out));
  ASSERT_TRUE(build());
  EXPECT_NE(build().error().message.find("exists already"), std::string::npos);
}

TEST_F(BuilderTest, FullDiskLeavesTheOldFolder) {
  options_.sources = {folder_.write("a.txt", words(3000, 1))};
  ASSERT_TRUE(build());
  const auto before = contents(options_.out);
  options_.sources = {folder_.write("b.txt", words(4000, 2))};
  options_.replace = true;
  for (const std::string point : {"file.write", "file.fsync", "file.rename"}) {
    for (const int n : {1, 2, 3}) {
      set_fault(point + ":" + std::to_string(n) + "=enospc");
      const auto report = build();
      set_fault("");
      EXPECT_FALSE(report) << point << " " << n;
      EXPECT_TRUE(contents(options_.out) == before) << point << " " << n;
    }
  }
}

TEST_F(BuilderTest, SkippedLinesAndEmptyValidationAreWarnings) {
  const std::string path = folder_.write("d.jsonl", "{\"text\": \"one\"}\nbroken\n{\"text\": \"two\"}\n");
  options_.sources = {path};
  options_.validation_fraction = 1e-6;
  const auto report = build();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->manifest.skipped_lines, 1);
  const std::vector<std::string>& warnings = report->manifest.warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0], "1 line is not a JSON object and was skipped: " + path + ":2");
  EXPECT_NE(warnings[1].find("No document of 2 fell into the validation part"), std::string::npos);
  const auto opened = Dataset::open(options_.out);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->manifest().warnings, warnings) << "said again whenever the data is used";
}

TEST_F(BuilderTest, CharacterThatTheTokenizerLacksIsNamedWithItsPlace) {
  CharacterVocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add("abc \n"));
  auto characters = vocabulary.build();
  ASSERT_TRUE(characters);
  tokenizer_ = std::move(*characters);
  const std::string path = folder_.write("e.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"abx\"}\n");
  options_.sources = {path};
  const auto report = build();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message.find(path + ":2: "), 0u) << report.error().message;
}

TEST_F(BuilderTest, ProgressCountsUp) {
  options_.sources = {folder_.write("a.txt", words(3000, 1))};
  BuildProgress last;
  const auto report = build_dataset(*tokenizer_, options_, [&last](const BuildProgress& p) {
    EXPECT_GE(p.text_bytes, last.text_bytes);
    last = p;
  });
  ASSERT_TRUE(report);
  EXPECT_EQ(last.stored_bytes_done, last.stored_bytes_total);
  EXPECT_EQ(last.tokens, report->manifest.train.tokens + report->manifest.validation.tokens);
}

std::string decompressed(const std::string& path) {
  std::string text;
  auto source = open_byte_source(path);
  EXPECT_TRUE(source) << source.error().message;
  std::vector<char> part(1 << 20);
  for (size_t got = 1; got > 0;) {
    const auto read = (*source)->read(part);
    EXPECT_TRUE(read);
    got = read ? *read : 0;
    text.append(part.data(), got);
  }
  return text;
}

// Real text and vocabularies: pieces and threads change no id.
class SharedTextTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SharedTextTest, CutDocumentsGiveTheIdsOfWholeOnes) {
  const std::string shared = INGOT_SHARED_DIR "/data/";
  const auto [vocabulary, pattern] = GetParam();
  if (!path_exists(shared + "tokenizers/" + vocabulary))
    GTEST_SKIP() << "the shared folder of test data is not here";
  const auto tokenizer =
      parse_tiktoken(decompressed(shared + "tokenizers/" + vocabulary), pattern, vocabulary);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const TestFolder folder;
  BuildOptions options;
  // The poems as one document: nearly every letter is a CJK character before a newline or a full stop.
  std::string poems;
  DocumentReader reader(*find_source_files({shared + "chinese-poetry.jsonl.zst"}, TextFormat::kJsonLines),
                        {});
  for (DocumentPiece piece; poems.size() < 2'000'000;) {
    const auto more = reader.next(piece);
    ASSERT_TRUE(more && *more);
    poems += piece.text + "\n";
  }
  options.sources = {shared + "tinyshakespeare.txt", shared + "state-of-the-union.txt.zst",
                     folder.write("poems.txt", poems)};
  std::vector<int32_t> whole;
  for (const std::string& path : options.sources) {
    auto encoder = (*tokenizer)->encoder();
    ASSERT_TRUE(encoder->encode(decompressed(path), whole));
    if ((*tokenizer)->end_of_text()) whole.push_back(*(*tokenizer)->end_of_text());
  }
  options.validation_fraction = 0;
  options.threads = 3;
  options.piece_bytes = 5000;
  options.out = (folder / "out");
  const auto report = build_dataset(**tokenizer, options);
  ASSERT_TRUE(report) << report.error().message;
  const auto dataset = Dataset::open(options.out);
  ASSERT_TRUE(dataset);
  std::vector<int32_t> cut(static_cast<size_t>(dataset->train().tokens()));
  ASSERT_TRUE(dataset->train().read(0, cut));
  EXPECT_TRUE(cut == whole) << cut.size() << " and " << whole.size() << " ids";
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, SharedTextTest,
                         ::testing::Values(std::pair{"r50k_base.tiktoken.zst", "gpt2"},
                                           std::pair{"cl100k_base.tiktoken.zst", "cl100k"},
                                           std::pair{"o200k_base.tiktoken.zst", "o200k"}));

}  // namespace
}  // namespace ingot::data
