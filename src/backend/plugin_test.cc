#include "backend/plugin.h"

#include <gtest/gtest.h>

#include <string>

namespace ingot::backend {
namespace {

const std::string kFolder = INGOT_FAKE_PLUGIN_DIR;

TEST(Plugin, OpensOneOfThisVersion) {
  auto plugin = Plugin::open(kFolder + "/libfake_plugin_good.so");
  ASSERT_TRUE(plugin) << plugin.error().message;
  EXPECT_STREQ(plugin->table().name, "fake");
  const Plugin moved = *plugin;
  void* memory = nullptr;
  EXPECT_STREQ(moved.table().allocate(nullptr, 1, &memory), "the fake has no memory");
}

TEST(Plugin, RefusesAnotherVersionWithBothNumbers) {
  auto plugin = Plugin::open(kFolder + "/libfake_plugin_future.so");
  ASSERT_FALSE(plugin);
  EXPECT_EQ(plugin.error().code, ErrorCode::kUnavailable);
  const std::string& message = plugin.error().message;
  EXPECT_NE(message.find("libfake_plugin_future.so has version 999"), std::string::npos) << message;
  EXPECT_NE(message.find("needs 1"), std::string::npos) << message;
}

TEST(Plugin, SaysWhyALibraryIsNone) {
  auto absent = Plugin::open(kFolder + "/libingot-absent.so");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(absent.error().message.find("libingot-absent.so cannot be opened"), std::string::npos);
  auto foreign = Plugin::open("libm.so.6");
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message.find("has no function ingot_plugin"), std::string::npos)
      << foreign.error().message;
}

}  // namespace
}  // namespace ingot::backend
