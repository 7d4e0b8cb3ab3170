#pragma once
// What a person sees while something runs. On a terminal one live line that is drawn over; elsewhere plain
// lines at intervals. Colour only on a terminal, never the only carrier of a meaning; NO_COLOR is honoured.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot::cli {

class Console {
 public:
  explicit Console(bool quiet);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool terminal() const { return terminal_; }
  bool quiet() const { return quiet_; }
  void be_quiet() { quiet_ = true; }                // warnings and errors only, from now on
  void be_plain() { terminal_ = colour_ = false; }  // as if not on a terminal

  // "machine         2 cores, ...": a name in a column of 16, then text; further lines and what does not fit
  // are indented below it.
  void field(std::string_view name, std::string_view text);
  void line(std::string_view text);   // a plain line on standard output; clears the live line first
  void live(std::string_view text);   // replaces the live line; nothing when not a terminal
  void warn(std::string_view text);   // "warning  ..." on standard error, also when quiet
  void error(std::string_view text);  // on standard error, also when quiet

 private:
  void clear_live();
  bool terminal_ = false, colour_ = false, quiet_ = false, live_ = false;
};

inline constexpr std::string_view kOutputFailed =
    "standard output cannot be written: its disk is full, or its reader is gone. What was printed is not "
    "whole";

// To standard output as it is. Errors: kIo once it cannot be written; the program then ends with 1 in any
// case (main.cc), so a caller that does not go on for long may ignore it.
Result<void> print_out(std::string_view text);

// Of the terminal behind the descriptor, at most 100; 100 where it is none.
size_t output_width(int descriptor);

}  // namespace ingot::cli
