#include "checkpoint/records.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace ingot::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSelfHash = "manifest_xxh3_64";
constexpr int kDeepest = 8;

std::string dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace); }

Json exact(double value) { return {{"value", value}, {"bits", hash_hex(std::bit_cast<uint64_t>(value))}}; }

// Reads one document; keeps the first thing that is wrong instead of throwing.
class Reader {
 public:
  explicit Reader(const std::string& place) : place_(place) {}

  bool failed() const { return !wrong_.empty(); }
  Error error() const {
    return corrupt(fmt::format("{}: {}. The file was changed or the disk is failing; use another checkpoint",
                               place_, wrong_));
  }
  void fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  const Json& member(const Json& object, const char* key) {
    static const Json kNone;
    if (!object.is_object()) {
      fail(fmt::format("{} is looked for in what is not an object", key));
      return kNone;
    }
    const auto found = object.find(key);
    if (found != object.end()) return *found;
    fail(fmt::format("{} is missing", key));
    return kNone;
  }
  int64_t integer(const Json& object, const char* key) { return as_integer(member(object, key), key); }
  int64_t size(const Json& object, const char* key) {
    const int64_t value = integer(object, key);
    if (value < 0) fail(fmt::format("{} is negative", key));
    return value;
  }
  int64_t as_integer(const Json& value, const char* key) {
    if (value.is_number_unsigned()) {
      const uint64_t number = value.get<uint64_t>();
      if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return static_cast<int64_t>(number);
    } else if (value.is_number_integer()) {
      return value.get<int64_t>();
    }
    fail(fmt::format("{} is not a whole number of 64 bits", key));
    return 0;
  }
  uint64_t unsigned_integer(const Json& object, const char* key) {
    const Json& value = member(object, key);
    if (value.is_number_unsigned()) return value.get<uint64_t>();
    fail(fmt::format("{} is not a whole number", key));
    return 0;
  }
  std::string text(const Json& object, const char* key) {
    const Json& value = member(object, key);
    if (value.is_string()) return value.get<std::string>();
    fail(fmt::format("{} is not text", key));
    return {};
  }
  uint64_t hash(const Json& object, const char* key) {
    const std::string digits = text(object, key);
    uint64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || digits.size() != 16) {
      fail(fmt::format("{} is not 16 hexadecimal digits", key));
    }
    return value;
  }
  double exact_double(const Json& object) { return std::bit_cast<double>(hash(object, "bits")); }
  const Json& list(const Json& object, const char* key) {
    static const Json kEmpty = Json::array();
    const Json& value = member(object, key);
    if (value.is_array()) return value;
    fail(fmt::format("{} is not a list", key));
    return kEmpty;
  }
  const Json& object(const Json& parent, const char* key) {
    static const Json kEmpty = Json::object();
    const Json& value = member(parent, key);
    if (value.is_object()) return value;
    fail(fmt::format("{} is not an object", key));
    return kEmpty;
  }
  Fields fields(const Json& parent, const char* key) {
    Fields out;
    for (const auto& [name, value] : object(parent, key).items()) {
      if (!value.is_string()) fail(fmt::format("{} of {} is not text", name, key));
      out.emplace_back(name, value.is_string() ? value.get<std::string>() : "");
    }
    return out;
  }

 private:
  std::string place_;
  std::string wrong_;
};

Json object_of(const Fields& fields) {
  Json out = Json::object();
  for (const auto& [key, value] : fields) out[key] = value;
  return out;
}

Result<Json> parse_document(std::string_view text, const std::string& place) {
  // What is nested deeper than any record of ours is left out: walking a document recurses.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  Json document = Json::parse(text.begin(), text.end(), shallow, false);
  Reader reader(place);
  if (document.is_discarded() || !document.is_object()) {
    reader.fail("it is not a whole JSON object");
    return reader.error();
  }
  const int64_t version = reader.integer(document, "format_version");
  if (reader.failed()) return reader.error();
  if (version > kCheckpointVersion) {
    return invalid(
        fmt::format("{}: format_version {} is newer than {}, the newest that this Ingot reads. Use the "
                    "Ingot that wrote it, or a later one",
                    place, version, kCheckpointVersion));
  }
  if (version < 1) {
    reader.fail(fmt::format("format_version {} never existed", version));
    return reader.error();
  }
  return document;
}

Json json_of(const ManifestTensor& tensor) {
  const WrittenTensor& written = tensor.written;
  Json out = {{"name", written.name},
              {"offset", written.offset},
              {"bytes", written.bytes},
              {"xxh3_64", hash_hex(written.hash)}};
  if (tensor.part) {
    std::vector<int64_t> whole;
    for (int d = 0; d < tensor.part->whole.rank(); ++d) whole.push_back(tensor.part->whole[d]);
    out["part"] = {{"tensor", tensor.tensor}, {"offset", tensor.part->offset}, {"whole", whole}};
  }
  return out;
}

Json document_of(const Manifest& manifest) {
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    Json out = {{"name", file.name}, {"bytes", file.bytes}, {"xxh3_64", hash_hex(file.hash)}};
    if (file.header_bytes > 0) {
      out["group"] = file.group;
      out["header_bytes"] = file.header_bytes;
      out["header_xxh3_64"] = hash_hex(file.header_hash);
      out["tensors"] = Json::array();
      for (const ManifestTensor& tensor : file.tensors) out["tensors"].push_back(json_of(tensor));
    }
    files.push_back(std::move(out));
  }
  return {{"format_version", kCheckpointVersion}, {"step", manifest.step}, {"files", std::move(files)}};
}

ManifestTensor read_tensor(Reader& reader, const Json& json) {
  ManifestTensor out;
  out.written = {reader.text(json, "name"), reader.size(json, "offset"), reader.size(json, "bytes"),
                 reader.hash(json, "xxh3_64")};
  if (json.is_object() && json.contains("part")) {
    const Json& in = reader.object(json, "part");
    out.tensor = reader.text(in, "tensor");
    std::vector<int64_t> whole;
    Part part;
    for (const Json& value : reader.list(in, "offset"))
      part.offset.push_back(reader.as_integer(value, "offset"));
    for (const Json& value : reader.list(in, "whole")) whole.push_back(reader.as_integer(value, "whole"));
    if (whole.size() != part.offset.size() || whole.size() > static_cast<size_t>(tensor::kMaxRank)) {
      reader.fail(fmt::format("the place of {} is in {} and {} dimensions", out.written.name,
                              part.offset.size(), whole.size()));
      return out;
    }
    part.whole = tensor::Shape(std::span<const int64_t>(whole));
    out.part = std::move(part);
  }
  return out;
}

ManifestFile read_file_entry(Reader& reader, const Json& json) {
  ManifestFile out;
  out.name = reader.text(json, "name");
  if (out.name.empty() || out.name.front() == '.' || out.name.find('/') != std::string::npos) {
    reader.fail(fmt::format("\"{}\" is not the name of a file of a checkpoint", out.name));
  }
  out.bytes = reader.size(json, "bytes");
  out.hash = reader.hash(json, "xxh3_64");
  if (json.is_object() && json.contains("tensors")) {
    // Version 1 wrote one file for a group, named after it.
    out.group = json.contains("group") ? reader.text(json, "group")
                                       : out.name.substr(0, out.name.rfind(kTensorSuffix));
    out.header_bytes = reader.size(json, "header_bytes");
    out.header_hash = reader.hash(json, "header_xxh3_64");
    for (const Json& tensor : reader.list(json, "tensors"))
      out.tensors.push_back(read_tensor(reader, tensor));
  }
  return out;
}

}  // namespace

std::string to_json(const StateRecord& record) {
  Json scalars = Json::object();
  for (const auto& [name, value] : record.scalars) scalars[name] = exact(value);
  Json counters = Json::object();
  for (const auto& [name, value] : record.counters) counters[name] = value;
  Json best = nullptr;
  if (record.best_validation_loss) {
    best = exact(*record.best_validation_loss);
    best["step"] = record.best_validation_step;
  }
  const Json document = {{"format_version", kCheckpointVersion},
                         {"step", record.step},
                         {"tokens", record.tokens},
                         {"samples", record.samples},
                         {"seed", record.seed},
                         {"data_fingerprint", record.data_fingerprint},
                         {"tokenizer_fingerprint", record.tokenizer_fingerprint},
                         {"model", object_of(record.model)},
                         {"versions", object_of(record.versions)},
                         {"scalars", std::move(scalars)},
                         {"counters", std::move(counters)},
                         {"best_validation", std::move(best)},
                         {"configuration", record.configuration}};
  return dump(document) + "\n";
}

Result<StateRecord> parse_state(std::string_view text, const std::string& place) {
  INGOT_TRY(const Json document, parse_document(text, place));
  Reader reader(place);
  StateRecord out;
  out.step = reader.size(document, "step");
  out.tokens = reader.size(document, "tokens");
  out.samples = reader.size(document, "samples");
  out.seed = reader.unsigned_integer(document, "seed");
  out.data_fingerprint = reader.text(document, "data_fingerprint");
  out.tokenizer_fingerprint = reader.text(document, "tokenizer_fingerprint");
  out.model = reader.fields(document, "model");
  out.versions = reader.fields(document, "versions");
  for (const auto& [name, value] : reader.object(document, "scalars").items()) {
    out.scalars.emplace_back(name, reader.exact_double(value));
  }
  for (const auto& [name, value] : reader.object(document, "counters").items()) {
    out.counters.emplace_back(name, reader.as_integer(value, "a counter"));
  }
  const Json& best = reader.member(document, "best_validation");
  if (!best.is_null()) {
    out.best_validation_loss = reader.exact_double(best);
    out.best_validation_step = reader.size(best, "step");
  }
  out.configuration = reader.text(document, "configuration");
  if (reader.failed()) return reader.error();
  return out;
}

std::string to_json(const Manifest& manifest) {
  Json document = document_of(manifest);
  document[kSelfHash] = hash_hex(hash64(dump(document)));
  return dump(document) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& place) {
  INGOT_TRY(Json document, parse_document(text, place));
  Reader reader(place);
  const uint64_t own_hash = reader.hash(document, kSelfHash);
  document.erase(kSelfHash);
  if (!reader.failed() && own_hash != hash64(dump(document))) reader.fail("its own checksum is wrong");
  Manifest out;
  out.step = reader.size(document, "step");
  for (const Json& file : reader.list(document, "files")) out.files.push_back(read_file_entry(reader, file));
  if (reader.failed()) return reader.error();
  return out;
}

}  // namespace ingot::checkpoint
