#include "data/document_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/units.h"
#include "data/byte_source.h"
#include "data/text_cut.h"

namespace ingot::data {
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;
constexpr size_t kMaxFieldsNamed = 16;

// Where to end a piece of about `want` bytes: a safe cut, or the whole text when there is none from `want`
// on.
size_t piece_end(std::string_view text, size_t want) {
  constexpr size_t kOverlap =
      4;  // a cut may lie at the seam of two windows: the longest letter and the space
  size_t begin = 0;
  for (size_t end = want; end < text.size(); end += want) {
    const size_t cut = last_safe_cut(text.substr(begin, end - begin));
    if (cut > 0) return begin + cut;
    begin = end - std::min(end, kOverlap);
  }
  return text.size();
}

std::string shown_name(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace

// What one JSON source gave, for the sentence when it gave nothing.
struct SourceTally {
  int64_t lines = 0;
  int64_t documents = 0;
  std::vector<std::string> fields;
};

struct DocumentReader::State {
  std::vector<SourceFile> sources;
  ReaderOptions options;
  ReadStats stats;
  size_t next_source = 0;
  int64_t finished_bytes = 0;
  int64_t total_bytes = 0;

  std::unique_ptr<ByteSource> bytes;  // of the source being read; null between sources
  TextFormat format = TextFormat::kPlainText;
  std::string name;
  std::vector<char> buffer;  // [begin, end) is read and not used; simdjson's padding lies behind end
  size_t begin = 0;
  size_t end = 0;
  bool at_end = false;
  bool inside_document = false;
  bool damage_noted = false;
  int64_t line = 0;
  SourceTally tally;
  simdjson::dom::parser parser;
  std::string_view rest_of_document;  // in the parser's memory

  std::string_view unread() const { return {buffer.data() + begin, end - begin}; }
  std::string place() const { return name + ":" + std::to_string(line); }
  Error without_text() const { return invalid(fmt::format("{} holds no text. Give a file that does", name)); }

  Result<void> open_next();
  Result<void> take_byte_order_mark();
  void note_damage(std::string_view text);
  Result<void> fill(size_t wanted);
  Result<bool> next_of_text(DocumentPiece& piece);
  Result<bool> next_of_json(DocumentPiece& piece);
  Result<bool> next_line(std::string_view* text);
  bool parse_line(std::string_view text);
  void note_fields(simdjson::dom::object object);
  Result<void> finish_json() const;
  void deliver(std::string_view text, bool begins, bool ends, DocumentPiece& piece);
};

Result<void> DocumentReader::State::open_next() {
  const SourceFile& source = sources[next_source];
  INGOT_TRY(bytes, open_byte_source(source.path));
  format = source.format;
  name = shown_name(source.path);
  begin = end = 0;
  at_end = inside_document = damage_noted = false;
  line = 0;
  tally = {};
  rest_of_document = {};
  INGOT_TRY_VOID(fill(1));
  if (unread().empty()) {
    return without_text();
  }
  if (format == TextFormat::kAuto) {
    const size_t first = unread().find_first_not_of(" \t\r\n");
    const bool brace = first != std::string_view::npos && unread()[first] == '{';
    format = brace ? TextFormat::kJsonLines : TextFormat::kPlainText;
  }
  INGOT_TRY_VOID(fill(4));
  return take_byte_order_mark();
}

// The mark of UTF-8 is no part of the text; those of other encodings say that the text is none we read.
Result<void> DocumentReader::State::take_byte_order_mark() {
  const std::string_view front = unread();
  if (front.starts_with("\xef\xbb\xbf")) {
    begin += 3;
    return front.size() > 3 ? Result<void>() : without_text();
  }
  if (front.starts_with("\xff\xfe") || front.starts_with("\xfe\xff")) {
    return invalid(
        fmt::format("{} is UTF-16 or UTF-32 text by its first bytes, and only UTF-8 is read. Convert it: "
                    "iconv -f UTF-16 -t UTF-8",
                    name));
  }
  return {};
}

void DocumentReader::State::note_damage(std::string_view text) {
  if (damage_noted || simdjson::validate_utf8(text)) return;
  damage_noted = true;
  if (stats.damaged_text.count++ == 0) stats.damaged_text.first = name;
}

// At least `wanted` unread bytes unless the source ends before.
Result<void> DocumentReader::State::fill(size_t wanted) {
  while (!at_end && end - begin < wanted) {
    if (begin > 0) {
      std::memmove(buffer.data(), buffer.data() + begin, end - begin);
      end -= begin;
      begin = 0;
    }
    const size_t room = end + kReadBytes + simdjson::SIMDJSON_PADDING;
    if (buffer.size() < room) buffer.resize(std::max(room, wanted + kReadBytes + simdjson::SIMDJSON_PADDING));
    INGOT_TRY(const size_t got, bytes->read({buffer.data() + end, kReadBytes}));
    end += got;
    at_end = got == 0;
  }
  return {};
}

void DocumentReader::State::deliver(std::string_view text, bool begins, bool ends, DocumentPiece& piece) {
  piece.text.assign(text);
  piece.begins_document = begins;
  piece.ends_document = ends;
  piece.source = next_source;
  piece.line = line;
  piece.document = stats.documents - (begins ? 0 : 1);
  if (begins) ++stats.documents;
  stats.text_bytes += static_cast<int64_t>(text.size());
  inside_document = !ends;
}

Result<bool> DocumentReader::State::next_of_text(DocumentPiece& piece) {
  const size_t want = static_cast<size_t>(options.piece_bytes);
  size_t target = want + want / 4;
  while (true) {
    INGOT_TRY_VOID(fill(target + 1));
    if (at_end && unread().size() <= target) {
      if (unread().empty() && !inside_document) return false;
      const std::string_view text = unread();
      note_damage(text);
      deliver(text, !inside_document, true, piece);
      begin = end;
      return true;
    }
    const size_t cut = piece_end(unread(), want);
    if (cut < unread().size() || at_end) {
      const bool ends = cut == unread().size();
      note_damage(unread().substr(0, cut));
      deliver(unread().substr(0, cut), !inside_document, ends, piece);
      begin += cut;
      return true;
    }
    target *= 2;  // doubling keeps the search for a cut linear
  }
}

Result<bool> DocumentReader::State::next_line(std::string_view* text) {
  size_t searched = 0;
  while (true) {
    const std::string_view there = unread();
    const size_t newline = there.find('\n', searched);
    if (newline != std::string_view::npos || (at_end && !there.empty())) {
      *text = there.substr(0, newline);
      begin += std::min(there.size(), text->size() + 1);
      ++line;
      return true;
    }
    if (at_end) return false;
    if (static_cast<int64_t>(there.size()) > options.max_line_bytes) {
      return invalid(
          fmt::format("{}:{} is longer than {}; is it one JSON object a line? A text file is read as text "
                      "when its name does not end in .jsonl",
                      name, line + 1, format_bytes(options.max_line_bytes)));
    }
    searched = there.size();
    INGOT_TRY_VOID(fill(there.size() + 1));
  }
}

void DocumentReader::State::note_fields(simdjson::dom::object object) {
  for (const auto& field : object) {
    if (tally.fields.size() >= kMaxFieldsNamed) return;
    const std::string key(field.key);
    if (std::find(tally.fields.begin(), tally.fields.end(), key) == tally.fields.end())
      tally.fields.push_back(key);
  }
}

// True when the line gave a document, which then is rest_of_document.
bool DocumentReader::State::parse_line(std::string_view text) {
  if (text.find_first_not_of(" \t\r") == std::string_view::npos) return false;
  ++stats.lines;
  ++tally.lines;
  const auto skip = [this](SkippedLines& kind) {
    if (kind.count++ == 0) kind.first = place();
    return false;
  };
  simdjson::dom::element root;
  if (parser.parse(text.data(), text.size(), false).get(root) != simdjson::SUCCESS) {
    return skip(simdjson::validate_utf8(text) ? stats.invalid_json : stats.invalid_utf8);
  }
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return skip(stats.invalid_json);
  if (object[options.text_field].get(rest_of_document) != simdjson::SUCCESS) {
    note_fields(object);
    return skip(stats.without_field);
  }
  ++tally.documents;
  return true;
}

Result<bool> DocumentReader::State::next_of_json(DocumentPiece& piece) {
  bool begins = false;
  while (!inside_document && !begins) {
    std::string_view text;
    INGOT_TRY(const bool more, next_line(&text));
    if (!more) {
      INGOT_TRY_VOID(finish_json());
      return false;
    }
    begins = parse_line(text);
  }
  const size_t want = static_cast<size_t>(options.piece_bytes);
  const size_t size = rest_of_document.size();
  const size_t cut = size <= want + want / 4 ? size : piece_end(rest_of_document, want);
  const std::string_view part = rest_of_document.substr(0, cut);
  rest_of_document.remove_prefix(cut);
  deliver(part, begins, rest_of_document.empty(), piece);
  return true;
}

Result<void> DocumentReader::State::finish_json() const {
  if (tally.documents > 0) return {};
  if (tally.lines == 0) return invalid(fmt::format("{} holds no JSON lines", name));
  if (tally.fields.empty()) {
    return invalid(fmt::format(
        "{}: none of its {} lines is a JSON object. If it is plain text, give it a name that does "
        "not end in .jsonl",
        name, format_integer(tally.lines)));
  }
  return invalid(
      fmt::format("{}: none of its {} lines has the field {} with text; the fields there are {}. Name the "
                  "right one: {}{}",
                  name, format_integer(tally.lines), options.text_field, fmt::join(tally.fields, ", "),
                  options.text_field_option, tally.fields.front()));
}

DocumentReader::DocumentReader(std::vector<SourceFile> sources, ReaderOptions options)
    : state_(std::make_unique<State>()) {
  INGOT_CHECK(options.piece_bytes >= 1, "piece_bytes is {}", options.piece_bytes);
  for (const SourceFile& source : sources) state_->total_bytes += source.stored_bytes;
  const bool unknown =
      std::any_of(sources.begin(), sources.end(), [](const SourceFile& s) { return s.stored_bytes == 0; });
  if (unknown) state_->total_bytes = 0;
  state_->sources = std::move(sources);
  state_->options = std::move(options);
}
DocumentReader::~DocumentReader() = default;
DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader& DocumentReader::operator=(DocumentReader&&) noexcept = default;

Result<bool> DocumentReader::next(DocumentPiece& piece) {
  State& s = *state_;
  while (s.bytes != nullptr || s.next_source < s.sources.size()) {
    if (s.bytes == nullptr) INGOT_TRY_VOID(s.open_next());
    INGOT_TRY(const bool got,
              s.format == TextFormat::kJsonLines ? s.next_of_json(piece) : s.next_of_text(piece));
    if (got) return true;
    s.finished_bytes += s.bytes->stored_bytes_read();
    s.bytes.reset();
    ++s.next_source;
  }
  return false;
}

std::string DocumentReader::place(size_t source, int64_t line) const {
  const std::string name = shown_name(state_->sources[source].path);
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

const ReadStats& DocumentReader::stats() const { return state_->stats; }
int64_t DocumentReader::stored_bytes_done() const {
  return state_->finished_bytes + (state_->bytes ? state_->bytes->stored_bytes_read() : 0);
}
int64_t DocumentReader::stored_bytes_total() const { return state_->total_bytes; }

std::vector<std::string> describe_skipped(const ReadStats& stats) {
  std::vector<std::string> sentences;
  const auto add = [&sentences](const SkippedLines& lines, std::string_view one, std::string_view many) {
    if (lines.count == 0) return;
    sentences.push_back(lines.count == 1 ? fmt::format("1 line {} and was skipped: {}", one, lines.first)
                                         : fmt::format("{} lines {} and were skipped; the first is {}",
                                                       format_integer(lines.count), many, lines.first));
  };
  add(stats.invalid_utf8, "is not valid UTF-8", "are not valid UTF-8");
  add(stats.invalid_json, "is not a JSON object", "are not JSON objects");
  add(stats.without_field, "has no text in the field", "have no text in the field");
  if (const SkippedLines& files = stats.damaged_text; files.count > 0) {
    sentences.push_back(
        fmt::format("{} not UTF-8 text throughout, and the bytes that are not were kept as they are: {}",
                    files.count == 1 ? "1 file is" : format_integer(files.count) + " files are",
                    files.count == 1 ? files.first : files.first + " and others"));
  }
  return sentences;
}

}  // namespace ingot::data
