#include <signal.h>

#include <cerrno>
#include <charconv>
#include <string>

#include "base/check.h"
#include "base/file.h"
#include "base/file_seam.h"
#include "base/mutex.h"

namespace ingot {
namespace {

struct ArmedFault {
  Mutex mutex;
  std::string point INGOT_GUARDED_BY(mutex);
  int64_t countdown INGOT_GUARDED_BY(mutex) = 0;
  bool repeats INGOT_GUARDED_BY(mutex) = false;
  FaultKind kind INGOT_GUARDED_BY(mutex) = FaultKind::kNone;
};

// The one process-wide state of base: a fault is armed for a whole process, by a test.
ArmedFault& armed_fault() {
  static ArmedFault fault;
  return fault;
}

FaultKind kind_of(std::string_view name) {
  if (name == "kill") return FaultKind::kKill;
  if (name == "enospc") return FaultKind::kNoSpace;
  if (name == "eio") return FaultKind::kIoError;
  return FaultKind::kNone;
}

}  // namespace

void set_fault(const std::string& spec) {
  ArmedFault& fault = armed_fault();
  const MutexLock lock(fault.mutex);
  fault.kind = FaultKind::kNone;
  if (spec.empty()) return;
  const size_t equals = spec.rfind('=');
  INGOT_CHECK(equals != std::string::npos, "fault '{}' is not <point>[:<n>[+]]=kill|enospc|eio", spec);
  std::string point = spec.substr(0, equals);
  const FaultKind kind = kind_of(spec.substr(equals + 1));
  INGOT_CHECK(kind != FaultKind::kNone, "fault '{}' does not end in kill, enospc or eio", spec);
  int64_t countdown = 1;
  fault.repeats = false;
  if (const size_t colon = point.find(':'); colon != std::string::npos) {
    fault.repeats = point.back() == '+';
    const char* end = point.data() + point.size() - (fault.repeats ? 1 : 0);
    const auto parsed = std::from_chars(point.data() + colon + 1, end, countdown);
    INGOT_CHECK(parsed.ec == std::errc{} && parsed.ptr == end && countdown >= 1,
                "fault '{}' needs a number from 1 after the colon", spec);
    point.resize(colon);
  }
  INGOT_CHECK(!point.empty(), "fault '{}' names no point", spec);
  fault.point = point;
  fault.countdown = countdown;
  fault.kind = kind;
}

FaultKind fault_at(std::string_view point) {
  ArmedFault& fault = armed_fault();
  FaultKind kind = FaultKind::kNone;
  {
    const MutexLock lock(fault.mutex);
    if (fault.kind == FaultKind::kNone || (fault.point != "*" && fault.point != point))
      return FaultKind::kNone;
    if (fault.countdown > 1) {
      --fault.countdown;
      return FaultKind::kNone;
    }
    kind = fault.kind;
    if (!fault.repeats) fault.kind = FaultKind::kNone;
  }
  if (kind == FaultKind::kKill) {
    raise(SIGKILL);
  }
  return kind;
}

bool fault_is_armed() {
  ArmedFault& fault = armed_fault();
  const MutexLock lock(fault.mutex);
  return fault.kind != FaultKind::kNone;
}

Result<void> check_fault(std::string_view point, const std::string& path) {
  switch (fault_at(point)) {
    case FaultKind::kNoSpace:
      return system_error("write", path, ENOSPC);
    case FaultKind::kIoError:
      return system_error("write", path, EIO);
    case FaultKind::kNone:
    case FaultKind::kKill:
      break;
  }
  return {};
}

}  // namespace ingot
