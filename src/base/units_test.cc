#include "base/units.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(*parse_bytes("64MiB"), 64 << 20);
  EXPECT_EQ(*parse_bytes("64MB"), 64'000'000);
  EXPECT_EQ(*parse_bytes(" 1.5 GiB "), 3LL << 29);
  EXPECT_EQ(*parse_bytes("512"), 512);
  EXPECT_EQ(*parse_bytes("2G"), 2LL << 30);
  for (const char* bad : {"", "MiB", "12 parsecs", "-1", "1.3B", "9000000000000000000K", "1 2"}) {
    EXPECT_FALSE(parse_bytes(bad)) << bad;
  }
}

TEST(Units, Counts) {
  EXPECT_EQ(*parse_count("10G"), 10'000'000'000);
  EXPECT_EQ(*parse_count("10B"), 10'000'000'000);
  EXPECT_EQ(*parse_count("1.1k"), 1100);
  EXPECT_EQ(*parse_count("1e9"), 1'000'000'000);
  EXPECT_EQ(*parse_count("524_288"), 524'288);
  EXPECT_EQ(*parse_count("12,911"), 12'911);
  EXPECT_EQ(*parse_count("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "k", "1.5", "9223372036854775808", "10X", "1e400", "nan", "1__0"}) {
    EXPECT_FALSE(parse_count(bad)) << bad;
  }
  EXPECT_EQ(parse_count("10X").error().message,
            "'10X' is not a count; write for instance 1000, 10k, 1.5M or 10G");
}

TEST(Units, Seconds) {
  EXPECT_EQ(*parse_seconds("2h"), 7200);
  EXPECT_EQ(*parse_seconds("1h30m"), 5400);
  EXPECT_EQ(*parse_seconds("1 d 4 h"), 100'800);
  EXPECT_EQ(*parse_seconds("90"), 90);
  EXPECT_DOUBLE_EQ(*parse_seconds("250ms"), 0.25);
  EXPECT_EQ(*parse_seconds("20min"), 1200);
  for (const char* bad : {"", "h", "30m1h", "1h 30", "5 weeks", "-3s", "1h1h"})
    EXPECT_FALSE(parse_seconds(bad)) << bad;
}

TEST(Units, Formats) {
  EXPECT_EQ(format_bytes(1'406'602'445), "1.31 GiB");
  EXPECT_EQ(format_bytes(500), "500 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024 * 1023), "1.00 MiB");
  EXPECT_EQ(format_bytes(50LL << 20), "50.0 MiB");
  EXPECT_EQ(format_bytes(-1024), "-1.00 KiB");
  EXPECT_EQ(format_count(12'200'000), "12.2 M");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(999'999), "1.00 M");
  EXPECT_EQ(format_integer(12'911), "12,911");
  EXPECT_EQ(format_integer(-1'234'567), "-1,234,567");
  EXPECT_EQ(format_integer(100), "100");
  EXPECT_EQ(format_integer(INT64_MIN), "-9,223,372,036,854,775,808");
  EXPECT_EQ(format_duration(880), "14:40");
  EXPECT_EQ(format_duration(7391), "2:03:11");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3 d 04:00");
  EXPECT_EQ(format_duration(0.4), "0:00");
}

TEST(Units, NearestName) {
  const std::vector<std::string> names = {"micro_batch_size", "global_batch_size", "tp", "seq_len"};
  EXPECT_EQ(nearest_name("micro_batchsize", names), "micro_batch_size");
  EXPECT_EQ(nearest_name("seqlen", names), "seq_len");
  EXPECT_EQ(nearest_name("tq", names), "tp");
  EXPECT_EQ(nearest_name("SEQ_LEN", names), "seq_len");
  EXPECT_EQ(nearest_name("colour", names), "");
  EXPECT_EQ(nearest_name("", names), "");
}

}  // namespace
}  // namespace ingot
