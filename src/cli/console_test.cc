#include "cli/console.h"

#include <gtest/gtest.h>

#include "cli/outcome.h"

namespace ingot::cli {
namespace {

TEST(Wrapped, KeepsWhatFits) {
  EXPECT_EQ(wrapped("ten  chars", 14, 4), "ten  chars");
  EXPECT_EQ(wrapped("", 10, 4), "");
}

TEST(Wrapped, CutsAtSpacesWithAMargin) {
  EXPECT_EQ(wrapped("one two three four", 9, 2), "one two\n  three\n  four");
  EXPECT_EQ(wrapped("a\nb", 9, 2), "a\n  b") << "given lines have the margin too";
}

TEST(Wrapped, ALongWordStaysWhole) {
  EXPECT_EQ(wrapped("see /a/very/long/path now", 10, 0), "see\n/a/very/long/path\nnow");
}

TEST(Wrapped, CountsCharactersNotBytes) { EXPECT_EQ(wrapped("ééé ééé", 7, 0), "ééé ééé"); }

TEST(ExitCode, IsTheDocumentedOneForEveryKindOfError) {
  struct Row {
    ErrorCode code;
    int exit;
  };
  for (const Row& row :
       {Row{ErrorCode::kInvalid, 2}, Row{ErrorCode::kNotFound, 2}, Row{ErrorCode::kCorrupt, 1},
        Row{ErrorCode::kIo, 1}, Row{ErrorCode::kUnavailable, 1}, Row{ErrorCode::kFault, 4}}) {
    EXPECT_EQ(exit_code(Error{row.code, ""}), row.exit) << static_cast<int>(row.code);
  }
  EXPECT_EQ(kDone, 0);
  EXPECT_EQ(kInterruptedSaved, 3);
}

}  // namespace
}  // namespace ingot::cli
