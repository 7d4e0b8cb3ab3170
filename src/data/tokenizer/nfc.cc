#include "data/tokenizer/nfc.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/nfc_table.h"
#include "data/tokenizer/unicode_classes.h"

namespace ingot::data {
namespace {

// Hangul syllables are composed by arithmetic (Unicode 3.12).
constexpr uint32_t kSyllableBase = 0xac00, kLeadBase = 0x1100, kVowelBase = 0x1161, kTailBase = 0x11a7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

struct Mark {
  uint32_t code;
  uint8_t combining;  // canonical combining class
};

class NfcData {
 public:
  static const NfcData& get() {
    static const NfcData data;
    return data;
  }

  // A character that neither changes under form C nor joins what is before it: text may be cut before it.
  bool is_boundary(uint32_t code) const { return !active_[code]; }

  static uint8_t combining(uint32_t code) {
    const std::span<const uint32_t> ranges(kCombiningRanges, kCombiningRangeCount);
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), code << 8 | 0xff);
    return static_cast<uint8_t>(*(after - 1) & 0xff);
  }

  // Appends the full canonical decomposition of `code`.
  void decompose(uint32_t code, std::vector<Mark>& out) const {
    if (code - kSyllableBase < kSyllables) {
      const uint32_t index = code - kSyllableBase;
      out.push_back({kLeadBase + index / (kVowels * kTails), 0});
      out.push_back({kVowelBase + index / kTails % kVowels, 0});
      if (index % kTails != 0) out.push_back({kTailBase + index % kTails, 0});
      return;
    }
    const std::span<const Decomposition> all(kDecompositions, kDecompositionCount);
    const auto found =
        std::lower_bound(all.begin(), all.end(), code,
                         [](const Decomposition& d, uint32_t wanted) { return d.code < wanted; });
    if (found == all.end() || found->code != code) {
      out.push_back({code, combining(code)});
      return;
    }
    decompose(found->first, out);
    if (found->second != 0) decompose(found->second, out);
  }

  // The composition of two characters, or 0.
  uint32_t compose(uint32_t first, uint32_t second) const {
    if (first - kLeadBase < kLeads && second - kVowelBase < kVowels) {
      return kSyllableBase + ((first - kLeadBase) * kVowels + second - kVowelBase) * kTails;
    }
    const uint32_t index = first - kSyllableBase;
    if (index < kSyllables && index % kTails == 0 && second - kTailBase - 1 < kTails - 1) {
      return first + second - kTailBase;
    }
    const auto found = pairs_.find(uint64_t{first} << 32 | second);
    return found == pairs_.end() ? 0 : found->second;
  }

 private:
  NfcData() : active_(0x110000) {
    for (const Decomposition& d : std::span(kDecompositions, kDecompositionCount)) {
      if (d.composes) {
        pairs_[uint64_t{d.first} << 32 | d.second] = d.code;
        active_[d.second] = true;
      } else {
        active_[d.code] = true;
      }
    }
    for (uint32_t i = 0; i < kVowels; ++i) active_[kVowelBase + i] = true;
    for (uint32_t i = 1; i < kTails; ++i) active_[kTailBase + i] = true;
    for (size_t i = 0; i + 1 < kCombiningRangeCount; ++i) {
      if ((kCombiningRanges[i] & 0xff) == 0) continue;
      for (uint32_t code = kCombiningRanges[i] >> 8; code < kCombiningRanges[i + 1] >> 8; ++code)
        active_[code] = true;
    }
  }

  std::vector<bool> active_;
  std::unordered_map<uint64_t, uint32_t> pairs_;
};

// Composes in place by the algorithm of UAX #15: each mark joins the last starter unless something between
// blocks it.
void compose_marks(const NfcData& data, std::vector<Mark>& marks) {
  size_t kept = 0;
  size_t starter = marks.size();
  for (const Mark mark : std::vector<Mark>(marks)) {
    const bool adjacent = starter + 1 == kept;
    const bool blocked = !adjacent && kept > 0 && marks[kept - 1].combining >= mark.combining;
    if (starter < kept && !blocked) {
      if (const uint32_t composed = data.compose(marks[starter].code, mark.code)) {
        marks[starter].code = composed;
        continue;
      }
    }
    if (mark.combining == 0) starter = kept;
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

// Appends the form C of well-formed text that begins at a boundary and ends before one.
void normalize_segment(const NfcData& data, const char* p, const char* end, std::string& out) {
  std::vector<Mark> marks;
  while (p < end) {
    const DecodedChar c = decode_char(p, end);
    data.decompose(c.code, marks);
    p += c.bytes;
  }
  for (auto it = marks.begin(); it != marks.end();) {
    const auto run = std::find_if(it, marks.end(), [](const Mark& m) { return m.combining != 0; });
    it = std::find_if(run, marks.end(), [](const Mark& m) { return m.combining == 0; });
    std::stable_sort(run, it, [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
  }
  compose_marks(data, marks);
  for (const Mark& mark : marks) {
    char bytes[4];
    out.append(bytes, encode_char(mark.code, bytes));
  }
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  const NfcData& data = NfcData::get();
  const char* const end = text.data() + text.size();
  const char* copied = text.data();    // all before is in the buffer
  const char* boundary = text.data();  // the last character that may begin a segment
  buffer.clear();
  for (const char* p = text.data(); p < end;) {
    if (static_cast<uint8_t>(*p) < 0x80) {
      boundary = p++;
      continue;
    }
    const DecodedChar c = decode_char(p, end);
    if (c.code == kInvalidChar || data.is_boundary(c.code)) {
      boundary = c.code == kInvalidChar ? p + c.bytes : p;
      p += c.bytes;
      continue;
    }
    const char* segment_end = p + c.bytes;
    while (segment_end < end) {
      const DecodedChar next = decode_char(segment_end, end);
      if (next.code == kInvalidChar || data.is_boundary(next.code)) break;
      segment_end += next.bytes;
    }
    buffer.append(copied, boundary);
    normalize_segment(data, boundary, segment_end, buffer);
    copied = boundary = p = segment_end;
  }
  if (copied == text.data()) return text;
  buffer.append(copied, end);
  return buffer;
}

}  // namespace ingot::data
