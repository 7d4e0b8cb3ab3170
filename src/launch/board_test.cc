#include "launch/board.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ingot::launch {
namespace {

TEST(Board, WhatARankWritesItsAgentReads) {
  auto board = Board::create(3);
  ASSERT_TRUE(board);
  EXPECT_EQ(board->ranks(), 3);
  EXPECT_EQ(board->note(2).read_run_dir(), "");
  const pid_t child = ::fork();
  if (child == 0) {
    auto own = Board::open(::dup(board->descriptor()));
    if (!own) ::_exit(1);
    own->page(2).step.store(41);
    own->note(2).set_run_dir("runs/book-1");
    ::_exit(own->ranks());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(board->page(2).step.load(), 41);
  EXPECT_EQ(board->note(2).read_run_dir(), "runs/book-1");
  EXPECT_EQ(board->page(1).step.load(), 0) << "each has its own";
}

TEST(Board, OtherDescriptorsAreRefused) {
  EXPECT_FALSE(Board::open(-1));
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(Board::open(ends[0]));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace ingot::launch
