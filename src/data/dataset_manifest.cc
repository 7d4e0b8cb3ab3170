#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "data/dataset.h"

namespace ingot::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxShards = 1'000'000;

Json split_json(const SplitRecord& split) {
  Json shards = Json::array();
  for (const ShardRecord& shard : split.shards) {
    shards.push_back({{"file", shard.file},
                      {"tokens", shard.tokens},
                      {"documents", shard.documents},
                      {"file_bytes", shard.file_bytes},
                      {"xxh3", hash_hex(shard.hash)}});
  }
  return {{"tokens", split.tokens},
          {"documents", split.documents},
          {"text_bytes", split.text_bytes},
          {"shards", shards}};
}

// Reads fields of one object and keeps the first thing that is wrong.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {}

  void integer(const char* key, int64_t* out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() ||
                       value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits || value->get<int64_t>() < 0) return wrong(key, "must be a whole number, not negative");
    *out = value->get<int64_t>();
  }
  void unsigned_integer(const char* key, uint64_t* out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) return wrong(key, "must be a whole number, not negative");
    *out = value->get<uint64_t>();
  }
  void number(const char* key, double* out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number()) return wrong(key, "must be a number");
    *out = value->get<double>();
  }
  void boolean(const char* key, bool* out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return wrong(key, "must be true or false");
    *out = value->get<bool>();
  }
  void string(const char* key, std::string* out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return wrong(key, "must be a string");
    *out = value->get<std::string>();
  }
  void strings_if_there(const char* key, std::vector<std::string>* out) {
    const auto found = object_.find(key);
    if (found == object_.end()) return;
    const bool strings = found->is_array() && std::all_of(found->begin(), found->end(),
                                                          [](const Json& one) { return one.is_string(); });
    if (!strings) return wrong(key, "must be a list of strings");
    *out = found->get<std::vector<std::string>>();
  }
  void hash(const char* key, uint64_t* out) {
    std::string digits;
    string(key, &digits);
    if (!reason_.empty()) return;
    const bool hex = digits.size() == 16 && digits.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hex) return wrong(key, "must be 16 hexadecimal digits");
    *out = std::stoull(digits, nullptr, 16);
  }
  const Json* find(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    wrong(key, "is not there");
    return nullptr;
  }
  void wrong(const char* key, const char* what) {
    if (reason_.empty()) reason_ = fmt::format("{}{} {}", place_, key, what);
  }
  const std::string& reason() const { return reason_; }

 private:
  const Json& object_;
  std::string place_;
  std::string reason_;
};

Error damaged(const std::string& name, const std::string& reason) {
  return corrupt(fmt::format(
      "{} is not a sound description of data: {}. Build the data again with ingot data build", name, reason));
}

Result<ShardRecord> parse_shard(const Json& json, const std::string& place, const std::string& name) {
  if (!json.is_object()) return damaged(name, place + " is not an object");
  ShardRecord shard;
  FieldReader fields(json, place + ".");
  fields.string("file", &shard.file);
  fields.integer("tokens", &shard.tokens);
  fields.integer("documents", &shard.documents);
  fields.integer("file_bytes", &shard.file_bytes);
  fields.hash("xxh3", &shard.hash);
  if (!fields.reason().empty()) return damaged(name, fields.reason());
  if (shard.file.empty() || shard.file.find('/') != std::string::npos || shard.file.starts_with(".")) {
    return damaged(name, place + ".file must be the name of a file in the same folder");
  }
  return shard;
}

Result<SplitRecord> parse_split(const Json& json, const std::string& place, const std::string& name) {
  if (!json.is_object()) return damaged(name, place + " is not an object");
  SplitRecord split;
  FieldReader fields(json, place + ".");
  fields.integer("tokens", &split.tokens);
  fields.integer("documents", &split.documents);
  fields.integer("text_bytes", &split.text_bytes);
  const Json* shards = fields.find("shards");
  if (!fields.reason().empty()) return damaged(name, fields.reason());
  if (!shards->is_array() || shards->size() > kMaxShards)
    return damaged(name, place + ".shards is not a list");
  for (size_t i = 0; i < shards->size(); ++i) {
    INGOT_TRY(ShardRecord shard, parse_shard((*shards)[i], fmt::format("{}.shards[{}]", place, i), name));
    split.shards.push_back(std::move(shard));
  }
  return split;
}

}  // namespace

std::string to_json(const DatasetManifest& manifest) {
  const Json json = {{"format_version", manifest.format_version},
                     {"tokenizer", manifest.tokenizer_name},
                     {"tokenizer_fingerprint", hash_hex(manifest.tokenizer_fingerprint)},
                     {"vocab_size", manifest.vocab_size},
                     {"seed", manifest.seed},
                     {"validation_rule", manifest.validation_rule},
                     {"validation_fraction", manifest.validation_fraction},
                     {"text_field", manifest.text_field},
                     {"bos", manifest.bos},
                     {"source_files", manifest.source_files},
                     {"skipped_lines", manifest.skipped_lines},
                     {"warnings", manifest.warnings},
                     {"train", split_json(manifest.train)},
                     {"validation", split_json(manifest.validation)}};
  // A path may hold bytes that are not UTF-8; it is for people only, so they are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<DatasetManifest> parse_manifest(std::string_view text, const std::string& name) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded() || !json.is_object()) return damaged(name, "it is not a JSON object");
  DatasetManifest manifest;
  FieldReader fields(json, "");
  fields.integer("format_version", &manifest.format_version);
  if (!fields.reason().empty()) return damaged(name, fields.reason());
  if (manifest.format_version != kDatasetFormatVersion) {
    return corrupt(
        fmt::format("{} has format version {}; this ingot reads version {}. Use a newer ingot, or build the "
                    "data again",
                    name, manifest.format_version, kDatasetFormatVersion));
  }
  fields.string("tokenizer", &manifest.tokenizer_name);
  fields.hash("tokenizer_fingerprint", &manifest.tokenizer_fingerprint);
  fields.integer("vocab_size", &manifest.vocab_size);
  fields.unsigned_integer("seed", &manifest.seed);
  fields.string("validation_rule", &manifest.validation_rule);
  fields.number("validation_fraction", &manifest.validation_fraction);
  fields.string("text_field", &manifest.text_field);
  fields.boolean("bos", &manifest.bos);
  fields.integer("source_files", &manifest.source_files);
  fields.integer("skipped_lines", &manifest.skipped_lines);
  fields.strings_if_there("warnings", &manifest.warnings);  // builds of 0.1.0 before it had none
  const Json* train = fields.find("train");
  const Json* validation = fields.find("validation");
  if (!fields.reason().empty()) return damaged(name, fields.reason());
  INGOT_TRY(manifest.train, parse_split(*train, "train", name));
  INGOT_TRY(manifest.validation, parse_split(*validation, "validation", name));
  return manifest;
}

}  // namespace ingot::data
