#pragma once
// A mutex that clang's -Wthread-safety can check: write INGOT_GUARDED_BY(mutex_) after the data it protects.
// Not for the step's hot path, which has no locks.

#include <mutex>

#if defined(__clang__)
#define INGOT_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define INGOT_THREAD_ATTRIBUTE(x)
#endif
#define INGOT_CAPABILITY(name) INGOT_THREAD_ATTRIBUTE(capability(name))
#define INGOT_SCOPED_CAPABILITY INGOT_THREAD_ATTRIBUTE(scoped_lockable)
#define INGOT_GUARDED_BY(mutex) INGOT_THREAD_ATTRIBUTE(guarded_by(mutex))
#define INGOT_REQUIRES(...) INGOT_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define INGOT_EXCLUDES(...) INGOT_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define INGOT_ACQUIRE(...) INGOT_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define INGOT_RELEASE(...) INGOT_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace ingot {

class INGOT_CAPABILITY("mutex") Mutex {
 public:
  void lock() INGOT_ACQUIRE() { mutex_.lock(); }
  void unlock() INGOT_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Holds the mutex for its scope. std::condition_variable_any waits on a Mutex: wait(mutex).
class INGOT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) INGOT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() INGOT_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace ingot
