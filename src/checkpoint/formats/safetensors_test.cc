#include "checkpoint/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "base/hash.h"
#include "base/test_folder.h"

namespace ingot::checkpoint {
namespace {

using tensor::DType;

std::string file_of(const std::string& json, const std::string& data) {
  const uint64_t length = json.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + json + data;
}

Result<SafetensorsView> parse(const std::string& file) {
  return SafetensorsView::parse(std::as_bytes(std::span(file)), "a.safetensors");
}

// The error must hold `part`, the place, and a remedy after the last full stop.
void expect_refused(const std::string& file, const std::string& part) {
  const auto result = parse(file);
  ASSERT_FALSE(result.has_value()) << part;
  const std::string& message = result.error().message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find("a.safetensors: "), 0U) << message;
}

TEST(Safetensors, WhatIsWrittenIsReadInAnyPieces) {
  const TestFolder around;
  const std::string path = around / "t.safetensors";
  const std::vector<TensorDeclaration> tensors = {
      {"wide", DType::kF64, {3, 5}}, {"empty", DType::kF32, {0, 7}}, {"matrix \"q\"\n", DType::kF32, {7, 11}},
      {"scalar", DType::kI32, {}},   {"half", DType::kBF16, {3}},    {"bytes", DType::kU8, {13}}};
  std::string data;
  for (const auto& tensor : tensors) {
    for (int64_t i = 0; i < tensor.bytes(); ++i) data += static_cast<char>(data.size() * 37 + 11);
  }
  const Metadata metadata = {{"format", "pt"}, {"naïve", "a\"b\\c\x01"}};
  auto writer = SafetensorsWriter::create(path, tensors, metadata);
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  std::mt19937 random(7);
  for (size_t at = 0; at < data.size();) {
    const size_t piece = std::min<size_t>(data.size() - at, 1 + random() % 97);
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(data).subspan(at, piece))).has_value());
    at += piece;
  }
  EXPECT_FALSE(path_exists(path));
  auto written = writer->finish();
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const std::string whole = *read_file(path);
  EXPECT_EQ(written->bytes, static_cast<int64_t>(whole.size()));
  EXPECT_EQ(written->bytes, safetensors_bytes(tensors, metadata));
  EXPECT_EQ(written->hash, hash64(whole));
  EXPECT_EQ(written->header_bytes % 8, 0);
  EXPECT_EQ(written->header_hash,
            hash64(std::string_view(whole).substr(0, static_cast<size_t>(written->header_bytes))));

  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const SafetensorsView& view = file->view();
  EXPECT_EQ(view.metadata(), metadata);
  ASSERT_EQ(view.entries().size(), tensors.size());
  std::string back;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SafetensorsEntry* entry = view.find(tensors[i].name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->dtype, tensors[i].dtype);
    EXPECT_EQ(entry->shape, tensors[i].shape);
    const auto bytes = view.bytes_of(*entry);
    EXPECT_EQ(written->tensors[i].name, tensors[i].name);
    EXPECT_EQ(written->tensors[i].offset, entry->offset);
    EXPECT_EQ(written->tensors[i].hash, hash64(bytes));
    back.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_EQ(back, data);
}

TEST(Safetensors, AFileWithoutTensorsIsAFile) {
  const TestFolder around;
  const std::string path = around / "none.safetensors";
  auto writer = SafetensorsWriter::create(path, {}, {});
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->finish().has_value());
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE(file->view().entries().empty());
}

TEST(Safetensors, TheOrderOfTheHeaderIsFree) {
  const auto view = parse(file_of(R"({"b":{"data_offsets":[4,8],"shape":[2],"dtype":"BF16"},)"
                                  R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                  R"("none":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
                                  "abcdefgh"));
  ASSERT_TRUE(view.has_value()) << view.error().message;
  EXPECT_EQ(view->entries()[0].name, "a");
  EXPECT_EQ(view->find("b")->bytes, 4);
  EXPECT_EQ(view->find("none")->bytes, 0);
}

TEST(Safetensors, TypesWeDoNotComputeWithAreListed) {
  const auto view = parse(file_of(R"({"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", "abc"));
  ASSERT_TRUE(view.has_value()) << view.error().message;
  EXPECT_FALSE(view->entries()[0].dtype.has_value());
  EXPECT_EQ(view->entries()[0].dtype_name, "BOOL");
}

TEST(Safetensors, DamageIsRefusedInASentence) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_refused("", "0 bytes are too few");
  expect_refused("1234567", "7 bytes are too few");
  expect_refused(std::string(8, '\xff'), "above the limit");
  expect_refused(std::string("\x10\0\0\0\0\0\0\0{}", 10), "ends behind the file");
  expect_refused(file_of("", ""), "not JSON");
  expect_refused(file_of("[]", ""), "a list stands where none belongs");
  expect_refused(file_of("{\"a\":{", ""), "not JSON");
  expect_refused(file_of("{} {}", ""), "not JSON");
  expect_refused(file_of("{" + a + "}", ""), "lies at bytes 0 to 4 of 0 data bytes");
  expect_refused(file_of("{" + a + "}", "12345"), "the tensors end at byte");
  expect_refused(file_of("{" + a + "," + a + "}", "1234"), "the name a occurs twice");
  expect_refused(file_of("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"),
                 "overlap");
  expect_refused(
      file_of("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", "123412341234"),
      "leave a hole");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
                 "does not fill");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"),
                 "lies at bytes 4 to 0");
  expect_refused(file_of(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234"),
                 "unknown data type \"F33\"");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
                 "must not be negative");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "1234"),
                 "whole numbers");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234"),
                 "two data_offsets");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"), "lacks one of");
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "1234"),
                 "a list stands");
  expect_refused(file_of(R"({"a":{"dtype":{}}})", ""), "nested too deep");
  expect_refused(file_of(R"({"a":{"colour":"F32"}})", ""), "unknown field colour");
  expect_refused(file_of(R"({"a":{"dtype":"F32","dtype":"F32"}})", ""), "has dtype twice");
  expect_refused(file_of(R"({"a":3})", ""), "a number stands outside");
  expect_refused(file_of(R"({"a":null})", ""), "null");
  expect_refused(file_of(R"({"a":true})", ""), "boolean");
  expect_refused(file_of(R"({"__metadata__":{"k":1}})", ""), "a number stands outside");
}

TEST(Safetensors, SizesThatOverflowAreRefused) {
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
                 "does not fill");
  expect_refused(file_of(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", ""),
                 "does not fill");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]}})", ""),
                 "does not fill");
  expect_refused(
      file_of(
          R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}})",
          ""),
      "lies at bytes");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,0]}})", ""),
                 "whole numbers");
  std::string many = "1";
  for (int i = 0; i < 100; ++i) many += ",1";
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[)" + many + R"(],"data_offsets":[0,1]}})", "a"),
                 "more than 32");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1],"data_offsets":[0,1]}})", "a"),
                 "6 dimensions");
}

TEST(Safetensors, DeepNestingCostsNoStack) {
  std::string deep = R"({"a":{"shape":)";
  deep.append(5'000'000, '[');
  expect_refused(file_of(deep, ""), "a list stands where none belongs");
}

TEST(Safetensors, EveryFlippedHeaderBitIsSafe) {
  const std::string good = file_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                   R"("b":{"dtype":"U8","shape":[3],"data_offsets":[24,27]}})",
                                   std::string(27, 'x'));
  ASSERT_TRUE(parse(good).has_value());
  for (size_t bit = 0; bit < (good.size() - 27) * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const auto view = parse(bad);
    if (!view) continue;
    for (const auto& entry : view->entries())
      EXPECT_EQ(view->bytes_of(entry).size(), static_cast<size_t>(entry.bytes));
  }
}

TEST(Safetensors, ReadsAFileOfThePythonLibrary) {
  auto file =
      SafetensorsFile::open(std::string(INGOT_SOURCE_DIR) + "/tests/golden/safetensors/python.safetensors");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const SafetensorsView& view = file->view();
  EXPECT_EQ(view.metadata(), (Metadata{{"written_by", "safetensors for Python"}}));
  // tools/golden/safetensors_check.py makes element i of the k-th name (7 i + 3 k) mod 13, less 6 where
  // signed.
  int k = 0;
  for (const char* name : {"b16", "f16", "f32", "f64", "i32", "i64", "odd.u8", "u16"}) {
    const SafetensorsEntry* entry = view.find(name);
    ASSERT_NE(entry, nullptr) << name;
    ASSERT_TRUE(entry->dtype.has_value()) << name;
    const auto bytes = view.bytes_of(*entry);
    const int64_t width = tensor::size_of(*entry->dtype);
    for (int64_t i = 0; i < entry->shape.elements(); ++i) {
      const int expected = static_cast<int>((i * 7 + k * 3) % 13);
      const std::byte* at = bytes.data() + i * width;
      double got = -1000;
      if (entry->dtype == DType::kF32) {
        float value = 0;
        std::memcpy(&value, at, 4);
        got = value + 6.0;
      } else if (entry->dtype == DType::kF64) {
        std::memcpy(&got, at, 8);
        got += 6;
      } else if (entry->dtype == DType::kI32) {
        int32_t value = 0;
        std::memcpy(&value, at, 4);
        got = value + 6;
      } else if (entry->dtype == DType::kI64) {
        int64_t value = 0;
        std::memcpy(&value, at, 8);
        got = static_cast<double>(value + 6);
      } else if (entry->dtype == DType::kU16) {
        uint16_t value = 0;
        std::memcpy(&value, at, 2);
        got = value;
      } else if (entry->dtype == DType::kU8) {
        got = static_cast<double>(*at);
      } else {
        continue;  // the half types are compared in hugging_face_test.cc
      }
      EXPECT_EQ(got, expected) << name << " " << i;
    }
    ++k;
  }
}

}  // namespace
}  // namespace ingot::checkpoint
