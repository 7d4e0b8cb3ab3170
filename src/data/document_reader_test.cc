#include "data/document_reader.h"

#include <zlib.h>
#include <zstd.h>

#include "data/test_folder.h"

namespace ingot::data {
namespace {

std::string gzip(std::string_view text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string in(text);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

struct ReadAll {
  std::vector<std::string> documents;
  size_t pieces = 0;
  ReadStats stats;
  std::string error;
};

ReadAll read_all(const std::vector<std::string>& paths, ReaderOptions options = {},
                 TextFormat format = TextFormat::kAuto) {
  ReadAll all;
  auto sources = find_source_files(paths, format);
  if (!sources) {
    all.error = sources.error().message;
    return all;
  }
  DocumentReader reader(*sources, options);
  DocumentPiece piece;
  while (true) {
    const Result<bool> more = reader.next(piece);
    if (!more) {
      all.error = more.error().message;
      break;
    }
    if (!*more) break;
    ++all.pieces;
    if (piece.begins_document) all.documents.emplace_back();
    all.documents.back() += piece.text;
    EXPECT_EQ(piece.document, static_cast<int64_t>(all.documents.size()) - 1);
  }
  all.stats = reader.stats();
  if (all.error.empty() && reader.stored_bytes_total() > 0) {
    EXPECT_EQ(reader.stored_bytes_done(), reader.stored_bytes_total());
  }
  return all;
}

std::string long_text(size_t words) {
  std::string text;
  for (size_t i = 0; i < words; ++i)
    text += "word" + std::to_string(i * i % 1013) + (i % 7 == 0 ? " end.\n\n" : "x of ");
  return text;
}

TEST(DocumentReader, PlainTextIsOneDocumentInAnyPieces) {
  const TestFolder folder;
  const std::string text = long_text(5000);
  const std::string path = folder.write("a.txt", text);
  for (const int64_t piece_bytes : {1, 17, 1000, 1 << 20}) {
    ReaderOptions options;
    options.piece_bytes = piece_bytes;
    const ReadAll all = read_all({path}, options);
    EXPECT_EQ(all.error, "");
    ASSERT_EQ(all.documents.size(), 1u);
    EXPECT_EQ(all.documents[0], text) << piece_bytes;
    EXPECT_EQ(all.stats.text_bytes, static_cast<int64_t>(text.size()));
    if (piece_bytes == 1000) {
      EXPECT_GT(all.pieces, text.size() / 2000);
    }
  }
}

TEST(DocumentReader, TextWithoutAPlaceToCutIsOnePiece) {
  const TestFolder folder;
  const std::string text(3'000'000, '7');
  ReaderOptions options;
  options.piece_bytes = 1000;
  const ReadAll all = read_all({folder.write("a.txt", text)}, options);
  ASSERT_EQ(all.documents.size(), 1u);
  EXPECT_EQ(all.documents[0], text);
  EXPECT_EQ(all.pieces, 1u);
}

TEST(DocumentReader, CompressedTextIsTheSame) {
  const TestFolder folder;
  const std::string first = long_text(40000);
  const std::string second = long_text(300);
  const std::string both = first + second;
  // Two members, two frames: concatenated files are valid files.
  EXPECT_EQ(read_all({folder.write("a.txt.gz", gzip(first) + gzip(second))}).documents[0], both);
  EXPECT_EQ(read_all({folder.write("a.txt.zst", zstd(first) + zstd(second))}).documents[0], both);
  EXPECT_EQ(read_all({folder.write("a.dict.dz", gzip(both))}).documents[0], both);
  EXPECT_EQ(read_all({folder.write("padded.gz", gzip(both) + std::string(512, '\0'))}).documents[0], both);
  EXPECT_EQ(read_all({folder.write("nameless", zstd(both))}).documents[0], both);
}

TEST(DocumentReader, TornAndDamagedFilesAreNamed) {
  const TestFolder folder;
  const std::string text = long_text(20000);
  for (const std::string kind : {"gz", "zst"}) {
    const std::string whole = kind == "gz" ? gzip(text) : zstd(text);
    for (const size_t cut : {whole.size() - 1, whole.size() / 2, size_t{20}}) {
      const std::string path = folder.write("torn." + kind, whole.substr(0, cut));
      const std::string error = read_all({path}).error;
      EXPECT_NE(error.find(path + " is torn"), std::string::npos) << error;
      EXPECT_NE(error.find("byte"), std::string::npos) << error;
    }
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x10);
    flipped[whole.size() / 2 + 9] = static_cast<char>(flipped[whole.size() / 2 + 9] ^ 0xFF);
    const std::string error = read_all({folder.write("flipped." + kind, flipped)}).error;
    if (kind == "gz") {  // these zstd frames carry no checksum
      EXPECT_NE(error.find("is damaged"), std::string::npos) << error;
    }
    const std::string plain = folder.write("plain." + kind, "no compression");
    EXPECT_NE(read_all({plain}).error.find("neither gzip nor Zstandard"), std::string::npos);
  }
  const std::string tail = folder.write("tail.gz", gzip(text) + "junk behind");
  EXPECT_NE(read_all({tail}).error.find("another member"), std::string::npos);
}

TEST(DocumentReader, JsonLines) {
  const TestFolder folder;
  const std::string path = folder.write("a.jsonl",
                                        "\xef\xbb\xbf{\"text\": \"one\\n\\u00e9\"}\r\n"
                                        "\n   \n"
                                        "{\"id\": 3, \"text\": \"two\", \"more\": [1, {\"text\": \"no\"}]}\n"
                                        "{\"text\": \"\"}\n"
                                        "{\"text\": \"last\"}");
  const ReadAll all = read_all({path});
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.documents, (std::vector<std::string>{"one\n\xc3\xa9", "two", "", "last"}));
  EXPECT_EQ(all.stats.lines, 4);
  EXPECT_EQ(all.stats.skipped(), 0);
}

TEST(DocumentReader, ByteOrderMarksAreNoText) {
  const TestFolder folder;
  const std::string marked = folder.write("a.txt", "\xef\xbb\xbfhello");
  EXPECT_EQ(read_all({marked}).documents, std::vector<std::string>{"hello"});
  const std::string only = folder.write("b.txt", "\xef\xbb\xbf");
  EXPECT_NE(read_all({only}).error.find("b.txt holds no text"), std::string::npos);
  const std::string wide = folder.write("c.txt", std::string("\xff\xfeh\0i\0", 6));
  EXPECT_NE(read_all({wide}).error.find("c.txt is UTF-16 or UTF-32 text"), std::string::npos);
}

TEST(DocumentReader, TextThatIsNotUtf8IsKeptAndNamed) {
  const TestFolder folder;
  std::string text = "caf\xe9 ";
  for (int i = 0; i < 3000; ++i) text += "more words \xc3\xa9\n";
  const std::string good = folder.write("a.txt", text.substr(5)), bad = folder.write("b.txt", text);
  const ReadAll all = read_all({good, bad, folder.write("c.txt", "\xff")});
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.documents[1], text);
  EXPECT_EQ(all.stats.damaged_text.count, 2);
  EXPECT_EQ(all.stats.damaged_text.first, bad);
  EXPECT_EQ(all.stats.skipped(), 0);
  EXPECT_NE(describe_skipped(all.stats).back().find("2 files are not UTF-8"), std::string::npos);
}

TEST(DocumentReader, BadLinesAreCountedAndTheFirstIsNamed) {
  const TestFolder folder;
  const std::string path = folder.write("b.jsonl",
                                        "{\"text\": \"good\"}\n"
                                        "{\"text\": \"bad \xff byte\"}\n"
                                        "{\"text\": \"cut off\n"
                                        "{\"title\": \"x\"}\n"
                                        "{\"text\": 5}\n"
                                        "[1, 2]\n"
                                        "{\"text\": \"a\"} trailing\n"
                                        "{\"text\": \"also good\"}\n"
                                        "{\"text\": \"bad \xc3\x28 byte\"}\n");
  const ReadAll all = read_all({path});
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.documents, (std::vector<std::string>{"good", "also good"}));
  EXPECT_EQ(all.stats.invalid_utf8.count, 2);
  EXPECT_EQ(all.stats.invalid_utf8.first, path + ":2");
  EXPECT_EQ(all.stats.invalid_json.count, 3);
  EXPECT_EQ(all.stats.invalid_json.first, path + ":3");
  EXPECT_EQ(all.stats.without_field.count, 2);
  EXPECT_EQ(all.stats.without_field.first, path + ":4");
  const std::vector<std::string> sentences = describe_skipped(all.stats);
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_EQ(sentences[0], "2 lines are not valid UTF-8 and were skipped; the first is " + path + ":2");
}

TEST(DocumentReader, NoLineWithTheFieldNamesThoseThatAreThere) {
  const TestFolder folder;
  const std::string path =
      folder.write("c.jsonl", "{\"author\": \"x\", \"content\": \"y\"}\n{\"content\": \"z\"}\n");
  const std::string error = read_all({path}).error;
  EXPECT_NE(error.find("none of its 2 lines has the field text"), std::string::npos) << error;
  EXPECT_NE(error.find("author, content"), std::string::npos) << error;
  EXPECT_NE(error.find("the right one: --text-field author"), std::string::npos) << error;
  ReaderOptions options;
  options.text_field_option = "--set data.text_field=";
  const std::string other = read_all({path}, options).error;
  EXPECT_NE(other.find("the right one: --set data.text_field=author"), std::string::npos) << other;
  options.text_field = "content";
  EXPECT_EQ(read_all({path}, options).documents, (std::vector<std::string>{"y", "z"}));
  const std::string no_json = read_all({folder.write("d.jsonl", "just\nwords\n")}).error;
  EXPECT_NE(no_json.find("is a JSON object"), std::string::npos) << no_json;
  const std::string blank = read_all({folder.write("e.jsonl", "\n\n")}).error;
  EXPECT_NE(blank.find("holds no JSON lines"), std::string::npos) << blank;
}

TEST(DocumentReader, LongJsonDocumentComesInPiecesAndLongLinesAreRefused) {
  const TestFolder folder;
  const std::string text = "plain words over and over ";
  std::string document;
  for (int i = 0; i < 30000; ++i) document += text;
  const std::string path =
      folder.write("f.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + document + "\"}\n{\"text\": \"b\"}\n");
  ReaderOptions options;
  options.piece_bytes = 10000;
  const ReadAll all = read_all({path}, options);
  EXPECT_EQ(all.documents, (std::vector<std::string>{"a", document, "b"}));
  EXPECT_GT(all.pieces, 60u);
  options.max_line_bytes = 100000;
  const std::string error = read_all({path}, options).error;
  EXPECT_NE(error.find(path + ":2 is longer than"), std::string::npos) << error;
}

TEST(SourceFiles, FoldersAndGlobsAreSortedAndFiltered) {
  const TestFolder folder;
  folder.write("corpus/b.txt", "b");
  folder.write("corpus/a.jsonl", "{\"text\": \"a\"}\n");
  folder.write("corpus/deep/er/c.txt.gz", gzip("c"));
  folder.write("corpus/picture.png", "not text");
  folder.write("corpus/.hidden.txt", "not this");
  folder.write("corpus/empty.txt", "");
  EXPECT_EQ(read_all({(folder / "corpus")}).documents, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read_all({(folder / "corpus/*.txt.gz"), (folder / "corpus/b.*")}).documents.size(), 0u);
  EXPECT_EQ(read_all({(folder / "corpus/[ab].*")}).documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read_all({(folder / "corpus/picture.png")}).documents, (std::vector<std::string>{"not text"}));
}

TEST(SourceFiles, MistakesNameThePath) {
  const TestFolder folder;
  folder.write("empty.txt", "");
  folder.write("bare/x.png", "x");
  folder.write("a.txt", "a");
  EXPECT_NE(read_all({(folder / "missing.txt")}).error.find("There is no file " + (folder / "missing.txt")),
            std::string::npos);
  EXPECT_NE(read_all({(folder / "*.nothing")}).error.find("No file matches"), std::string::npos);
  EXPECT_NE(read_all({(folder / "empty.txt")}).error.find("is empty"), std::string::npos);
  EXPECT_NE(read_all({(folder / "bare")}).error.find("holds no text"), std::string::npos);
  EXPECT_NE(read_all({(folder / "a.txt"), (folder / "a.txt")}).error.find("given twice"), std::string::npos);
  EXPECT_NE(read_all({}).error.find("No text was given"), std::string::npos);
  EXPECT_NE(read_all({folder.write("void.gz", gzip(""))}).error.find("holds no text"), std::string::npos);
}

}  // namespace
}  // namespace ingot::data
