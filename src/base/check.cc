#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ingot {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "ingot: internal error at %s:%d: %s\n  failed: %s\n  please report this line\n", file,
               line, message.c_str(), condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace ingot
