#include "cli/outcome.h"

#include <gtest/gtest.h>

namespace ingot::cli {
namespace {

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
